"""Variants with those around them that lie within reach, where a chromosome goes on in other parts. Not a stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.kernels.linkage import Samples, without_haploid_heterozygotes
from pipeline.stages.genomics._genotypes import calls_in
from pipeline.stages.genomics._linkage import UNPLACED, chosen_calls, last_position, stretches
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import Session


@dataclass(frozen=True)
class Ahead:
    """Of a part and those after it: the rows that a part before may reach, of one chromosome, and which chromosomes there are."""

    rows: Part
    chromosome: str | None
    seen: frozenset[str]


class Stretch(NamedTuple):
    """Neighbours on one chromosome: rows of a part and `variants` and `packed` calls of them and of those ahead of them.

    Of dosages calls are those nearest to them. `ends` is for each row of the part one past the last that it reaches.
    """

    chromosome: str
    low: int
    variants: pl.DataFrame
    packed: Any
    samples: Samples
    ends: NDArray[np.int64]


@dataclass(frozen=True)
class Reach:
    """How far a variant reaches, in units of a column: base pairs, or centimorgans."""

    distance: float
    column: str = "base_pair_location"

    def places(self, chromosome: str, variants: pl.DataFrame) -> NDArray[Any]:
        """Where variants of a chromosome are. Raises DataError where positions, or places, are missing or not in order."""
        last_position(chromosome, variants, None)
        column = variants[self.column]
        places: NDArray[Any] = column.cast(pl.Float64).fill_null(np.nan).to_numpy() if column.dtype.is_float() else column.to_numpy()
        if not (np.diff(places) >= 0).all() or (len(places) == 1 and np.isnan(places[0])):
            raise DataError(
                f"{self.column} of chromosome {chromosome!r} falls, or is missing. Give the genotypes a genetic map, or a reach in kb."
            )
        return places


@dataclass(frozen=True)
class Rows(Reach):
    """A reach by the number of variants, whatever lies between them."""

    column: str = ""

    def places(self, chromosome: str, variants: pl.DataFrame) -> NDArray[Any]:
        """The variants' numbers. Raises DataError where positions are missing or not in order."""
        last_position(chromosome, variants, None)
        return np.arange(variants.height)


def aheads(session: Session, parts: list[Any], reach: Reach, stage: str) -> list[Any]:
    """For each part what lies ahead of it within reach, None for the last: futures, made from the last part to the first."""
    found: list[Any] = [None]
    for part in reversed(parts[1:]):
        found.append(session.submit(_ahead, part, found[-1], reach, stage=stage))
    return found[::-1][: len(parts)]


def _ahead(part: Part, later: Ahead | None, reach: Reach) -> Ahead:
    """What the part before this one may reach."""
    if part.frame.is_empty():
        return later or Ahead(part, None, frozenset())
    chromosome, _, high = next(stretches(part.frame))
    seen = frozenset(part.frame["chromosome"].drop_nulls().unique()) | (later.seen if later else frozenset())
    if chromosome is None or chromosome == UNPLACED:
        return Ahead(_slice(part, 0, 0), chromosome, seen)
    rows = _slice(part, 0, high)
    if later and chromosome == later.chromosome and high == part.frame.height:
        rows = concat_parts([rows, later.rows])
    places = reach.places(chromosome, rows.frame)
    rows = _slice(rows, 0, int(np.searchsorted(places, places[0] + reach.distance, "right")))
    return Ahead(rows, chromosome, seen)


def behinds(session: Session, parts: list[Any], count: int, stage: str) -> list[Any]:
    """For each part the last `count` rows before it of the chromosome that they end in, None for the first: futures."""
    found: list[Any] = [None]
    for part in parts[:-1]:
        found.append(session.submit(_behind, part, found[-1], count, stage=stage))
    return found[: len(parts)]


def _behind(part: Part, earlier: Part | None, count: int) -> Part:
    """What stands before the part after this one."""
    if part.frame.is_empty():
        return earlier or part
    *_, (chromosome, low, high) = stretches(part.frame)
    rows = _slice(part, max(low, high - count), high)
    if earlier and low == 0 and earlier.rows and earlier.frame["chromosome"][-1] == chromosome:
        rows = concat_parts([earlier, rows])
    return _slice(rows, max(0, rows.rows - count), rows.rows)


def neighbours(part: Part, later: Ahead | None, people: pl.DataFrame, reach: Reach) -> Iterator[Stretch]:
    """The part's chromosomes, one after another, each with what lies ahead; chromosome 0 and unnamed ones are left out.

    Raises DataError where a chromosome's variants are not together and in order.
    """
    for chromosome, low, high, whole in going_on(part, later):
        places = reach.places(chromosome, whole.frame)
        ends = np.searchsorted(places, places[: high - low] + reach.distance, "right")
        packed, samples = chosen_calls(calls_in(whole), people, chromosome)
        yield Stretch(chromosome, low, whole.frame, without_haploid_heterozygotes(packed, samples), samples, ends)


def going_on(part: Part, later: Ahead | None) -> Iterator[tuple[str, int, int, Part]]:
    """Each chromosome of a part but 0 and unnamed ones, its first row and one past the last, and these rows with those ahead.

    Raises DataError where a chromosome's variants are not together.
    """
    pieces = list(stretches(part.frame))
    for at, (chromosome, low, high) in enumerate(pieces):
        if chromosome is None or chromosome == UNPLACED:
            continue
        goes_on = at == len(pieces) - 1 and later is not None and later.chromosome == chromosome
        if any(chromosome == name for name, _, _ in pieces[at + 1 :]) or (later and chromosome in later.seen and not goes_on):
            raise DataError(
                f"the variants of chromosome {chromosome!r} do not stand together. Put a sort by chromosome and "
                "base_pair_location before this stage."
            )
        rows = _slice(part, low, high)
        yield chromosome, low, high, concat_parts([rows, later.rows]) if goes_on and later else rows


def counts_of(part: Part) -> dict[str, int]:
    """What was counted on the way to a part."""
    return dict(part.counts)


def _slice(part: Part, low: int, high: int) -> Part:
    return Part(part.frame[low:high], {name: array[low:high] for name, array in part.arrays.items()})
