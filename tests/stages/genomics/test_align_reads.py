"""align_reads: beside minimap2's own alignments of reads that are hard to align."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import InputError, PlaceError, StageError
from pipeline.files import stamp
from pipeline.formats.fastq import FastqInput
from pipeline.registry import stage_class
from pipeline.stages.genomics import _mapping
from pipeline.stages.genomics._reference import Reference
from pipeline.stages.genomics.align_reads import AlignReads
from pipeline.testing.examples import StageExample
from pipeline.testing.formats import read_table
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, plan_stage, run_stage
from tests.stages.genomics.alignment_rows import alignments
from tests.stages.genomics.hard_reads import FIELDS, MADE, REFERENCE, digests, hard_pairs, long_reads, write_fastq

STAGE = AlignReads(reference=str(REFERENCE))
SEQUENCES = dict(Reference(str(REFERENCE), stamp(REFERENCE)).sequences())


def _frame(reads: list[tuple[str, bytes, bytes]], mates: list[tuple[str, bytes, bytes]] | None = None) -> pl.DataFrame:
    table = pl.DataFrame(
        [("s", name, a.decode(), b.decode()) for name, a, b in reads],
        schema=["sample_id", "read_id", "bases", "base_qualities"],
        orient="row",
    )
    if mates is None:
        return table
    return table.with_columns(
        mate_bases=pl.Series([a.decode() for _, a, _ in mates]), mate_base_qualities=pl.Series([b.decode() for _, _, b in mates])
    )


PAIRS = _frame(*hard_pairs(SEQUENCES))
LONG = _frame(long_reads(SEQUENCES))
EXAMPLES = [
    StageExample(STAGE, {"rows": PAIRS[:40]}, ordered=True, needs="mappy"),
    StageExample(AlignReads(reference=str(REFERENCE), preset="map-ont"), {"rows": LONG[:6]}, ordered=True, needs="mappy"),
]


def as_sam(rows: pl.DataFrame) -> pl.DataFrame:
    """Alignments as the fields of SAM have them."""
    same = pl.when(pl.col("mate_chromosome") == pl.col("chromosome")).then(pl.lit("=")).otherwise("mate_chromosome").fill_null("*")
    zero = pl.col("base_pair_location", "mate_location").fill_null(0)
    texts = rows.with_columns(zero, mate_chromosome=same).with_columns(pl.col("chromosome", "cigar").fill_null("*"), *digests())
    return texts.select(*FIELDS, "bases", "base_qualities", "edit_distance").cast(pl.String)


@pytest.mark.parametrize(("name", "preset", "rows"), [("pairs", "sr", PAIRS), ("long", "map-ont", LONG)])
def test_align_reads__gives_minimap2s_own_lines(name: str, preset: str, rows: pl.DataFrame) -> None:
    pytest.importorskip("mappy")
    found = run_stage(AlignReads.model_validate({"reference": str(REFERENCE), "preset": preset}), {"rows": rows}, parts=3)[""]
    expected = pl.read_parquet(MADE / f"{name}.parquet")
    assert_frame_equal(as_sam(found), expected)
    flags = expected["flag"].cast(pl.Int32)
    assert (flags & 2048 > 0).sum() >= 3  # the reads are as hard as they should be
    assert name == "long" or {bit for bit in (2, 4, 8, 16, 32) if (flags & bit > 0).any()} == {2, 4, 8, 16, 32}


def test_align_reads__is_the_same_for_any_parts_and_counts() -> None:
    pytest.importorskip("mappy")
    found = assert_same_for_any_parts(STAGE, {"rows": PAIRS[:60]}, ["read_id", "flag", "base_pair_location"])
    counts = counts_of(STAGE, {"rows": PAIRS[:60]}, 3)
    assert counts["reads"] == 120
    assert counts["aligned"] == 120 - found["cigar"].null_count()
    assert counts["supplementary"] == found.height - 120


def test_align_reads__reads_what_the_fastq_format_gives(tmp_path: Path) -> None:
    pytest.importorskip("mappy")
    files = [write_fastq(tmp_path / f"{at}.fastq", reads[:20]) for at, reads in enumerate(hard_pairs(SEQUENCES))]
    read = read_table(FastqInput.model_validate({"path": [str(file) for file in files], "layout": "paired", "sample": "s"}))
    assert_frame_equal(read.frame, PAIRS[:20])


@pytest.mark.parametrize(
    ("stage", "rows", "error", "message"),
    [
        (AlignReads(reference=str(REFERENCE), preset="map-ont"), PAIRS, StageError, "'map-ont' aligns single reads, and these are pairs"),
        (STAGE, PAIRS.drop("base_qualities"), StageError, "no column 'base_qualities'"),
        (AlignReads(reference="nowhere.fa"), PAIRS, InputError, r"nowhere\.fa: there is no such file"),
        (AlignReads(reference="s3://bucket/x.fa"), PAIRS, InputError, "a reference is read from a disk. Copy it"),
    ],
)
def test_align_reads__refuses(stage: AlignReads, rows: pl.DataFrame, error: type[Exception], message: str) -> None:
    pytest.importorskip("mappy")
    with pytest.raises(error, match=message):
        plan_stage(stage, {"rows": rows})


def test_align_reads__says_what_to_install() -> None:
    with mock.patch.object(_mapping, "find_spec", return_value=None), pytest.raises(PlaceError, match=r"pip install '\.\[align\]'"):
        plan_stage(STAGE, {"rows": PAIRS})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"ACGT\n", "is no FASTA: it begins with b'ACGT"),
        (b"", "is no FASTA: it begins with b''"),
        (b"@read\nAC\n+\nII\n", "These are reads"),
        (b">a\nAC\n>a\nGT\n", "the sequence 'a' comes twice"),
        (b">\nAC\n", "a sequence has no name"),
        (b"\x1f\x8b\x08\x00broken", "cannot be read"),
    ],
)
def test_a_reference__that_is_none_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "x.fa"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message):
        Reference.at(str(path)).sequences()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (str(REFERENCE.parent), "is a folder. Give the FASTA file in it"),
        (__file__, "is no FASTA"),
        ("https://example.org/x.fa", "is read from a disk"),
    ],
)
@pytest.mark.parametrize("use", ["align_reads", "coverage", "pileup_calls"])
def test_a_reference__that_is_none_is_refused_by_its_parameter(use: str, given: str, message: str) -> None:
    stage = stage_class(use).model_validate({"reference": given})
    with pytest.raises(InputError, match=message) as refused:
        plan_stage(stage, {"rows": PAIRS if use == "align_reads" else alignments(3)})
    assert refused.value.key == "reference"


def test_a_reference__is_read_plain_and_packed() -> None:
    assert Reference.at(str(REFERENCE)).lengths() == {"1": 60_000, "2": 20_000}
