"""UCSC chain files, plain or gzipped: which stretches of one genome build are which of another, as liftover reads them.

https://genome.ucsc.edu/goldenPath/help/chain.html; Kent et al. (2003), PNAS 100:11484-11489.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.format import CostlySource
from pipeline.formats._bgzip.lines import whole_text
from pipeline.formats._bounded import BoundedInput
from pipeline.tables.part import Part, Schema

BLOCKS = pl.Schema(
    {
        "chromosome": pl.String(), "start": pl.Int64(), "end": pl.Int64(), "new_chromosome": pl.String(), "new_start": pl.Int64(),
        "strand": pl.String(), "score": pl.Int64(),
    }
)  # fmt: skip
_HEAD_FIELDS = 12  # without the chain's id


class Chain(NamedTuple):
    """A chain's header: names, where it begins, counted from 0 along each strand, and on '-' the length of the new sequence."""

    score: int
    name: str
    start: int
    new_name: str
    new_size: int
    strand: str
    new_start: int


@dataclass(frozen=True)
class ChainSource(CostlySource):
    """One file."""

    path: str
    known: Stamp
    limits: Bounds = DEFAULTS

    def load(self) -> Part:
        """A row a block without gaps. Raises InputError, with the line, for what is no chain file."""
        rows = list(_blocks(self.path, whole_text(self.path, self.limits)))
        if not rows:
            raise InputError(f"{self.path}: has no chain")
        return Part(pl.DataFrame(rows, schema=BLOCKS, orient="row"))


class ChainInput(BoundedInput):
    """A chain file from one build to another (hg19ToHg38.over.chain.gz): a row for each stretch without gaps.

    Columns: chromosome, start and end in the old build, from 1 and both in it; new_chromosome, and new_start, where `start` lies in the new
    build; strand, - where positions there fall while those here rise; the chain's score.
    """

    name = "chain"
    suffixes = (".chain", ".chain.gz")

    def table_schema(self) -> Schema:
        """The columns."""
        self.files()
        return Schema(BLOCKS)

    def sources(self, parallel: int) -> Sequence[ChainSource]:
        """One a file."""
        return [ChainSource(path, stamp(path), self.limits) for path in self.files()]


def _blocks(path: str, text: str) -> Iterator[tuple[str, int, int, str, int, str, int]]:
    chain, at, new_at = None, 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        try:
            if fields[0] == "chain":
                chain = _header(fields)
                at, new_at = chain.start, chain.new_start
                continue
            size, gap, new_gap = [*map(int, fields), 0, 0][:3]
        except (ValueError, IndexError) as error:
            raise InputError(f"{path}: line {number} is none of a chain file: {line[:60]!r}") from error
        if chain is None:
            raise InputError(f"{path}: line {number} stands before any chain: {line[:60]!r}")
        first = new_at + 1 if chain.strand == "+" else chain.new_size - new_at
        yield chain.name, at + 1, at + size, chain.new_name, first, chain.strand, chain.score
        at, new_at = at + size + gap, new_at + size + new_gap


def _header(fields: Sequence[str]) -> Chain:
    """Raises ValueError or IndexError for another line."""
    if len(fields) < _HEAD_FIELDS or fields[4] != "+" or fields[9] not in "+-":
        raise ValueError("a chain's header has twelve fields, and the first sequence's strand is +")
    return Chain(int(float(fields[1])), fields[2], int(fields[5]), fields[7], int(fields[8]), fields[9], int(fields[10]))
