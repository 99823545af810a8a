"""The fastq format: reads and pairs, in any parts, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.formats import fastq
from pipeline.formats.fastq import FastqInput
from pipeline.testing.formats import assert_reads

Write = Callable[[str, bytes], Path]


def reads(count: int, mate: str = "", seed: int = 1) -> list[tuple[str, str, str]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 90, count)
    return [
        (f"r{at}{mate}", "".join(rng.choice([*"ACGTN"], size)), "".join(map(chr, rng.integers(33, 74, size))))
        for at, size in enumerate(sizes)
    ]


def text(rows: list[tuple[str, str, str]], end: str = "\n") -> bytes:
    return "".join(
        f"@{name} run 7{end}{bases}{end}+{name if at % 2 else ''}{end}{quality}{end}" for at, (name, bases, quality) in enumerate(rows)
    ).encode()


def reader(*paths: Path, **given: Any) -> FastqInput:
    return FastqInput.model_validate({"path": [str(path) for path in paths], "sample": "mother", **given})


def table(first: list[tuple[str, str, str]], second: list[tuple[str, str, str]] | None = None) -> pl.DataFrame:
    one = pl.DataFrame([("mother", *row) for row in first], schema=list(fastq.SINGLE), orient="row")
    if second is None:
        return one
    return one.hstack(pl.DataFrame([row[1:] for row in second], schema=["mate_bases", "mate_base_qualities"], orient="row"))


@pytest.mark.parametrize("name", ["a.fastq", "a.gzip.fq.gz", "a.bgzip.fastq.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fastq__gives_every_read_whatever_packs_and_cuts_it(text_file: Write, name: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastq, "_RANGE_BYTES", 900)  # so that a part is of several
    rows = reads(83)
    assert_reads(reader(text_file(name, text(rows, end))), table(rows))


def test_fastq__needs_no_line_end_at_the_end(text_file: Write) -> None:
    rows = reads(3, seed=5)
    assert_reads(reader(text_file("a.fastq", text(rows)[:-1])), table(rows))


@pytest.mark.parametrize("packing", ["", "gzip.", "bgzip."])
def test_fastq__puts_mates_side_by_side_though_their_lengths_differ(
    text_file: Write, packing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastq, "_RANGE_BYTES", 700)
    first, second = reads(61, "/1"), reads(61, "/2", seed=2)
    ending = "fastq.gz" if packing else "fastq"
    files = [text_file(f"a_{at}.{packing}{ending}", text(rows)) for at, rows in ((1, first), (2, second))]
    assert_reads(reader(*files, layout="paired"), table(first, second))
    mixed = [row for pair in zip(first, second, strict=True) for row in pair]
    assert_reads(reader(text_file(f"b.{packing}{ending}", text(mixed)), layout="interleaved"), table(first, second))


def test_fastq__of_a_folder_takes_files_in_order_two_and_two(text_file: Write, tmp_path: Path) -> None:
    lanes = [(reads(5, seed=lane), reads(5, seed=lane + 10)) for lane in (1, 2)]
    for lane, ends in enumerate(lanes):
        for at, rows in enumerate(ends):
            text_file(f"lane{lane}_{at + 1}.fastq", text(rows))
    assert_reads(reader(tmp_path, layout="paired"), table(lanes[0][0] + lanes[1][0], lanes[0][1] + lanes[1][1]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b">chr1\nACGT\nACGT\nACGT\n", "is no FASTQ: it begins with b'>chr1"),
        (b"@a\nACGT\n+\nII\n", "the read that begins with '@a' is none of FASTQ"),
        (b"@a\nAC GT\n+\nIIIII\n", "the read that begins with '@a' is none of FASTQ"),
        (b"@a\nACGT\n+\nIIII\nb\nA\n+\nI\n", "the read that begins with 'b' is none"),
        (b"@a\nACGT\n+\n", "has 3 lines more than whole reads"),
        ("@a\nÄCGT\n+\nIIIII\n".encode(), "has bytes that are no ASCII"),
    ],
)
def test_fastq__refuses_what_is_none(text_file: Write, content: bytes, message: str) -> None:
    table = reader(text_file("a.fastq", content))
    with pytest.raises(InputError, match=message):
        _ = table.table_schema(), [source.load() for source in table.sources(2)]


def test_fastq__refuses_mates_that_are_none(text_file: Write) -> None:
    first, second = text_file("a_1.fastq", text(reads(4))), text_file("a_2.fastq", text(reads(3)))
    with pytest.raises(InputError, match="have 4 and 3 reads, and mates come in pairs"):
        reader(first, second, layout="paired").sources(1)
    with pytest.raises(InputError, match="is the last of 1 files, and layout: paired takes two and two"):
        reader(first, layout="paired").table_schema()
    with pytest.raises(InputError, match=r"odd number of reads \(3\)"):
        reader(second, layout="interleaved").sources(1)
    (source,) = reader(first, text_file("b_2.fastq", text(reads(5)[1:])), layout="paired", parts=1).sources(1)
    with pytest.raises(InputError, match="the mate of read 'r0' is called 'r1'"):
        source.load()
