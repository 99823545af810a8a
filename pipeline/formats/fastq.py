"""Sequencing reads: FASTQ, plain, gzip or bgzip, of single reads or of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, Literal, cast

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.format import CostlySource, even_ranges
from pipeline.formats._bgzip.blocks import TextRange, file_kind, reading
from pipeline.formats._bgzip.cutting import plan_ranges
from pipeline.formats._bgzip.lines import open_text, read_lines
from pipeline.formats._bounded import BoundedInput
from pipeline.genome.columns import dtypes_of
from pipeline.tables.part import Part, Schema

SINGLE = ("sample_id", "read_id", "bases", "base_qualities")
PAIRED = (*SINGLE, "mate_bases", "mate_base_qualities")
_RECORD = 4  # lines of a read
_RANGE_BYTES = 16 << 20  # of text that is counted, and read, at once
_PART_BYTES_LEAST, _PART_BYTES_MOST = 1 << 20, 128 << 20  # of a file in a part, where `parts` does not say

Layout = Literal["single", "paired", "interleaved"]


@dataclass(frozen=True)
class Stretch:
    """`lines` lines of a file, after `skip` of those that begin in its ranges."""

    path: str
    ranges: tuple[TextRange, ...]
    skip: int
    lines: int


@dataclass(frozen=True)
class FastqSource(CostlySource):
    """Some reads of a file, or of two files of which the one has the mates of the other's."""

    stretches: tuple[Stretch, ...]
    sample: str
    layout: Layout
    limits: Bounds = DEFAULTS

    def load(self) -> Part:
        """A row a read, or a pair. InputError for what is no FASTQ, and for mates of other reads."""
        first, *others = [_reads(stretch, self.limits) for stretch in self.stretches]
        mates = others[0] if others else first
        path = self.stretches[-1].path
        if self.layout == "interleaved":
            first, mates = first.gather_every(2), first.gather_every(2, 1)
        sample = pl.lit(self.sample).alias("sample_id")
        if self.layout == "single":
            return Part(first.select(sample, *SINGLE[1:]))
        _need_mates(first["read_id"], mates["read_id"], path)
        pairs = first.hstack(mates.select(pl.col(name).alias(f"mate_{name}") for name in ("bases", "base_qualities")))
        return Part(pairs.select(sample, *PAIRED[1:]))


def _reads(stretch: Stretch, limits: Bounds) -> pl.DataFrame:
    """The reads of a stretch: name, bases and qualities. InputError, with the read, where lines are none."""
    text = b"".join(chunk for part in stretch.ranges for chunk in read_lines(part, limits))
    lines = _lines(stretch, text)
    columns = ("head", "bases", "plus", "base_qualities")
    reads = pl.DataFrame(
        {name: lines.gather_every(_RECORD, at) for at, name in enumerate(columns)}, schema=dict.fromkeys(columns, pl.String)
    )
    bad = reads.with_row_index("at").filter(
        ~(pl.col("head").str.starts_with("@") & pl.col("plus").str.starts_with("+"))
        | (pl.col("bases").str.len_bytes() != pl.col("base_qualities").str.len_bytes())
        | pl.col("bases").str.contains(r"[^A-Za-z.*=-]")
    )
    if bad.height:
        row = bad.row(0, named=True)
        raise InputError(
            f"{stretch.path}: the read that begins with {row['head'][:80]!r} is none of FASTQ, whose reads have four lines: @name, the "
            "bases, a line that begins with +, and as many qualities as bases. Write sequences that go over several lines in one"
        )
    name = pl.col("head").str.extract(r"^@(\S*)", 1).alias("read_id")
    return reads.select(name, "bases", "base_qualities")


def _lines(stretch: Stretch, text: bytes) -> pl.Series:
    """The lines of a stretch as a column: the text itself, and where each begins."""
    import pyarrow as pa

    if not text.isascii():
        raise InputError(f"{stretch.path}: has bytes that are no ASCII, which FASTQ is written in. Is it a FASTQ file?")
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == ord("\n")).astype(np.int64) + 1
    if len(text) and not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    offsets = np.concatenate([np.zeros(1, np.int64), ends])[stretch.skip : stretch.skip + stretch.lines + 1]
    column = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.copy()), pa.py_buffer(text))
    return cast("pl.Series", pl.from_arrow(column)).str.strip_chars_end("\r\n")


def _need_mates(first: pl.Series, mates: pl.Series, path: str) -> None:
    """Raise InputError where mates do not have the names of their reads, but for /1 and /2 at the end."""
    names = pl.DataFrame({"read": first, "mate": mates}).with_row_index("at")
    other = names.filter(pl.col("read").str.replace(r"/1$", "") != pl.col("mate").str.replace(r"/2$", ""))
    if other.height:
        _, read, mate = other.row(0)
        raise InputError(f"{path}: the mate of read {read!r} is called {mate!r}. Give both files in the order of the sequencer, unsorted")


@lru_cache(maxsize=64)
def _counted(path: str, _stamp: Stamp, limits: Bounds) -> tuple[tuple[TextRange, int], ...]:
    """Ranges of a file with the lines that begin in each, read once while it is unchanged. InputError for lines that are no whole reads."""
    found = []
    for part in plan_ranges(path, _RANGE_BYTES):
        lines, last = 0, b"\n"
        for chunk in read_lines(part, limits):
            lines, last = lines + chunk.count(b"\n"), chunk[-1:]
            del chunk  # before the next one is made
        found.append((part, lines + (last != b"\n")))
    if total := sum(lines for _, lines in found) % _RECORD:
        raise InputError(f"{path}: has {total} lines more than whole reads of four lines each. Is it complete, and FASTQ?")
    return tuple(found)


class FastqInput(BoundedInput):
    """Reads of a sequencer, four lines each: a row a read, or a row a pair.

    To cut a file into parts its lines are counted first, which reads it once; a gzip file, which cannot be cut, is one part, so
    bgzip is to be preferred. Qualities are text, one letter a base (Phred + 33), as SAM has them.
    """

    name = "fastq"
    suffixes = (".fastq", ".fq", ".fastq.gz", ".fq.gz", ".fastq.bgz", ".fq.bgz")
    in_pieces: ClassVar[bool] = True

    sample: str = Field("sample", min_length=1, pattern=r"^\S+$", description="The sample that was sequenced: the column sample_id.")
    layout: Layout = Field(
        "single", description="single; paired: of the files in order two and two belong together, a_1 and a_2; interleaved: mates in turn."
    )

    def table_schema(self) -> Schema:
        """The columns of a read, or of a pair. InputError for an odd number of paired files, or what does not begin as FASTQ does."""
        for path in self._together():
            for file in path:
                with reading(file), open_text(file, file_kind(file), self.limits) as text:
                    head = next(self.limits.header(file, text), b"")
                if not head.startswith(b"@"):
                    raise InputError(f"{file}: is no FASTQ: it begins with {head[:20]!r}, and a read with @. Is format fastq right?")
        return Schema(pl.Schema(dtypes_of(SINGLE if self.layout == "single" else PAIRED)))

    def _together(self) -> list[list[str]]:
        """The files that are read together: two where they hold mates."""
        files, each = self.files(), 2 if self.layout == "paired" else 1
        if len(files) % each:
            raise InputError(
                f"{files[-1]}: is the last of {len(files)} files, and layout: paired takes two and two. Is its mates' file there?"
            )
        return [files[at : at + each] for at in range(0, len(files), each)]

    def sources(self, parallel: int) -> Sequence[FastqSource]:
        """Stretches of reads of each file, or of both files of mates."""
        together = self._together()
        total = sum(stamp(files[0]).size for files in together)
        found = list[FastqSource]()
        for files in together:
            counted = [_counted(file, stamp(file), self.limits) for file in files]
            lines = [sum(number for _, number in ranges) for ranges in counted]
            if len({*lines}) > 1:
                reads = " and ".join(f"{number // _RECORD:,}" for number in lines)
                raise InputError(f"{files[1]}: and {files[0]} have {reads} reads, and mates come in pairs. Is one of them cut?")
            each = _RECORD * (2 if self.layout == "interleaved" else 1)
            if lines[0] % each:
                raise InputError(
                    f"{files[0]}: has an odd number of reads ({lines[0] // _RECORD:,}), and layout: interleaved takes two and two"
                )
            parts = self._parts(stamp(files[0]).size, total, parallel) if file_kind(files[0]) != "gzip" else 1
            for first, count in even_ranges(lines[0] // each, min(parts, max(lines[0] // each, 1))):
                stretches = tuple(_stretch(file, ranges, first * each, count * each) for file, ranges in zip(files, counted, strict=True))
                found.append(FastqSource(stretches, self.sample, self.layout, self.limits))
        return found

    def _parts(self, size: int, total: int, parallel: int) -> int:
        """Parts of a file: its share of `parts`, else by its size, a few per task that can run at once."""
        if self.parts:
            return max(1, round(self.parts * size / total))
        return max(min(2 * parallel, size // _PART_BYTES_LEAST + 1), size // _PART_BYTES_MOST + 1)


def _stretch(path: str, counted: Sequence[tuple[TextRange, int]], first: int, count: int) -> Stretch:
    """Where so many lines are from the first on."""
    starts = [0, *accumulate(lines for _, lines in counted)]
    wanted = [at for at in range(len(counted)) if starts[at] < first + count and starts[at + 1] > first]
    begin = starts[wanted[0]] if wanted else 0
    return Stretch(path, tuple(counted[at][0] for at in wanted), first - begin, count)
