"""The fasta format: sequences in pieces, however long lines and files are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.formats import fasta
from pipeline.formats._bgzip import lines
from pipeline.formats.fasta import FastaInput
from pipeline.tables.part import concat_parts
from pipeline.tables.steps import Step, evaluate
from tests.kernels.plink_files import DATA

TEXT = ">chr1 the first GRCh38\nACGTAcgtn\nACG\n\n>2\nTTTTTTTTTTTT\n>empty\n>MT\r\nGA\r\nT\r\n"
SEQUENCES = {"chr1": "ACGTAcgtnACG", "2": "TTTTTTTTTTTT", "MT": "GAT"}


def reader(path: Path | list[Path], **given: Any) -> FastaInput:
    return FastaInput.model_validate({"path": [str(one) for one in path] if isinstance(path, list) else str(path), **given})


def read(table: FastaInput, sources: int = 1) -> pl.DataFrame:
    found = table.sources(2)
    assert len(found) == sources
    frame = concat_parts([evaluate(Step("read", "genome", source=source), "cpu") for source in found]).frame
    assert frame.schema == table.table_schema().columns
    return frame


def joined(frame: pl.DataFrame) -> dict[str, str]:
    """The sequences whole; their pieces follow one another."""
    ends = frame["start"] + frame["sequence"].str.len_bytes()
    assert frame.with_columns(end=ends).filter(pl.col("start") != pl.col("end").shift(1).over("chromosome").fill_null(1)).is_empty()
    return dict(frame.group_by("chromosome", maintain_order=True).agg(pl.col("sequence").str.join("")).rows())


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("piece", [1, 4, 100])
def test_fasta_input__is_the_same_for_any_chunks_and_pieces(
    text_file: Callable[[str, bytes], Path], monkeypatch: pytest.MonkeyPatch, chunk: int, piece: int
) -> None:
    monkeypatch.setattr(lines, "TEXT_BYTES", chunk)
    monkeypatch.setattr(fasta, "PIECE_BASES", piece)
    frame = read(reader(text_file("a.fa", TEXT.encode())))
    assert joined(frame) == SEQUENCES
    assert max(map(len, frame["sequence"])) <= piece


@pytest.mark.parametrize("name", ["a.fa", "a.gzip.fa.gz", "a.bgzip.fa.gz"])
def test_fasta_input__reads_what_is_packed_in_parts_of_many_pieces(
    text_file: Callable[[str, bytes], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = reader(text_file(name, TEXT.encode()), rename={"2": "two", "MT": "M"})
    assert table.genome_build() == "GRCh38"
    expected = {"chr1": SEQUENCES["chr1"], "two": SEQUENCES["2"], "M": SEQUENCES["MT"]}
    assert joined(read(table)) == expected
    monkeypatch.setattr(fasta, "PIECE_BASES", 2)
    monkeypatch.setattr(fasta, "_PART_PIECES", 10)
    assert joined(read(table, len(table.sources(2)))) == expected
    assert len(table.sources(2)) > 2


def test_fasta_input__reads_several_files(text_file: Callable[[str, bytes], Path]) -> None:
    first, second = text_file("a.fa", b">1\nAC\n"), text_file("b.fa", b">2\nGT")
    assert joined(read(reader([first, second], rename={"2": "X"}), 2)) == {"1": "AC", "X": "GT"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"ACGT\n>1\nAC\n", r"a\.fa: begins with 'ACGT\\n', and FASTA with a line >NAME"),
        (b"\n\n", r"a\.fa: has no line >NAME"),
        (b">1\nACGT\n>1\nAC\n", r"a\.fa: has the sequence '1' more than once"),
        (b">\nACGT\n", r"a\.fa: a line is > without a name"),
        (b">1\nACGT\nMEEPQ\n", r"a\.fa: the sequence '1' has 'E', which stands for no base"),
    ],
)
def test_fasta_input__refuses_what_is_none(text_file: Callable[[str, bytes], Path], text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(reader(text_file("a.fa", text)))


def test_fasta_input__refuses_to_rename_what_is_not_there(text_file: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(InputError, match=re.escape("rename: there is no sequence 'chr2'. Did you mean 'chr1'?")):
        read(reader(text_file("a.fa", b">chr1\nAC\n"), rename={"chr2": "2"}))


def test_fasta_input__refuses_a_title_without_end(text_file: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(InputError, match=r"has a (line|title) of more than 1 MiB"):
        read(reader(text_file("a.fa", b">" + b"x" * (2 << 20)), limits={"line_mib": 1}))


@pytest.mark.skipif(not (DATA / "annotation").is_dir(), reason=f"the shared annotation is not at {DATA}")
def test_fasta_input__chromosome_20() -> None:
    table = reader(DATA / "annotation" / "chr20.250k.fa.gz", rename={"gi|224384749|gb|CM000682.1|": "20"})
    frame = read(table)
    assert table.genome_build() == "GRCh37"
    assert frame.select("chromosome", "start").rows() == [("20", 1), ("20", 100_001), ("20", 200_001)]
    assert joined(frame)["20"][68_350:68_353] == "ATG"  # the first codon of DEFB125
