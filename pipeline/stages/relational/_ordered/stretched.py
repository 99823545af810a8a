"""A row for every step of keys that lie in order in several parts: a part goes on to where the next one begins, by stretches of steps.

What stands in gaps comes of what is known around them, so that it is put beside the rows before there are more of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.relational._ordered.between import around, seen
from pipeline.stages.relational._ordered.ends import alike
from pipeline.stages.relational._ordered.gaps import GAP, MOST_STEPS, STEP
from pipeline.stages.relational._ordered.groups import AT, END, START, placed_in
from pipeline.stages.relational._ordered.in_parts import each_part, in_parts
from pipeline.stages.relational._ordered.known import PLACE, Carry, Edge, Series, put_in
from pipeline.stages.relational._ordered.spans import as_number
from pipeline.stages.relational._ordered.steps import Steps
from pipeline.tables.budget import SHARE, Size, row_bytes
from pipeline.tables.names import Order
from pipeline.tables.pairs import large_keys
from pipeline.tables.part import Part
from pipeline.tables.steps import Step
from pipeline.tables.table import Table

MOST_KEYS = 100_000  # whose first and last steps are looked at
ASIDE, OF_LINE = 6, 4
"""Whole numbers that stand beside each row meanwhile, and for each column with a line: values known around it, and where they are."""
NUMBER, REACH, LEAST, MOST = "__number__", "__reach__", "__least__", "__most__"


class Ends(NamedTuple):
    """Of a part its edge, None where it has no rows, the number of its first and its last row's step, and rows that it would have."""

    edge: Edge | None
    first: int | None
    last: int | None
    rows: int


class Beside(NamedTuple):
    """What lies around a part: known values, and, if its last row's key goes on, the number of the step then; rows that it comes to."""

    carry: Carry
    until: int | None
    rows: int


@dataclass(frozen=True)
class Stretched:
    """Rows with STEP, one a key and step, and of each of their other columns what stands in gaps."""

    by: tuple[str, ...]
    steps: Steps
    rules: Mapping[str, str]

    @property
    def lines(self) -> list[str]:
        """The columns of which the known values around a gap are wanted."""
        return [name for name, rule in self.rules.items() if rule == "interpolate"]

    @property
    def forward(self) -> list[str]:
        """Those of which the one before it is."""
        return [name for name, rule in self.rules.items() if rule == "forward"]

    @property
    def series(self) -> Series:
        """The rows in the order of keys and steps."""
        return Series(self.by, STEP, (*self.lines, *self.forward))

    def applies(self, rows: Table) -> bool:
        """Whether the steps of a key, or of those that would come to a part, are more than a task may hold. Waits for a count of them."""
        budget = rows.session.budget
        assert budget is not None
        assert rows.schema is not None
        known: pl.DataFrame | None = rows.session.value(rows.reduce(self.spans, self.joined))
        if known is None:
            return rows.is_beyond and large_keys(rows, self.by, self._bytes(rows)).height > 0
        most, parts = budget.bytes // (SHARE * budget.at_once), rows.buckets() if rows.is_beyond else 1
        found = [int(last - first + 1) for first, last in known.select(LEAST, MOST).drop_nulls().iter_rows()]
        return max(found, default=0) * self._bytes(rows) > most or sum(found) * row_bytes(rows.schema) > most * parts

    def _bytes(self, rows: Table) -> int:
        """What a row takes meanwhile."""
        assert rows.schema is not None
        return row_bytes(rows.schema) + 8 * (ASIDE + OF_LINE * len(self.lines) + len(self.forward))

    def spans(self, part: Part) -> pl.DataFrame | None:
        """The first and the last step of each key of a part; None of too many keys."""
        numbered = part.frame.select(*self.by, self._number().alias(NUMBER))
        return self._few(numbered.with_columns(pl.col(NUMBER).alias(LEAST), pl.col(NUMBER).alias(MOST)))

    def joined(self, found: list[pl.DataFrame | None]) -> pl.DataFrame | None:
        """The same of several parts."""
        there = [one for one in found if one is not None]
        return self._few(pl.concat(there)) if len(there) == len(found) else None

    def _few(self, spans: pl.DataFrame) -> pl.DataFrame | None:
        ends = [pl.col(LEAST).min(), pl.col(MOST).max()]
        found = spans.group_by(self.by).agg(ends) if self.by else spans.select(ends)
        return found if found.height <= MOST_KEYS else None

    def table(self, rows: Table) -> Table:
        """A row for every step, with what is known around those of gaps, all in one order. Waits for the rows to be put in it."""
        session, stage = rows.session, rows.stage
        assert session.budget is not None
        assert rows.schema is not None
        ordered, ends = in_parts(rows, self.by, Order((STEP,)), "refuse", self.ends)
        beside = session.submit(self.beside, ends, stage=stage)
        counts: list[int] = session.value(session.submit(_counts, beside, stage=stage))
        size = Size(sum(counts), self._bytes(rows))
        most = -(-size.rows // session.budget.pieces(size)) or 1
        known = each_part(ordered, self.known, beside)
        blocks = [
            Step(
                "part",
                stage,
                (block,),
                partial(self.stretch, number=number, low=low, high=min(low + most, count)),
                (beside,),
                (number, low),
            )
            for number, (block, count) in enumerate(zip(known.blocks, counts, strict=True))
            for low in range(0, count, most) or [0]
        ]
        return replace(known, blocks=tuple(blocks), size=Size(size.rows, row_bytes(rows.schema)))

    def _number(self) -> pl.Expr:
        return replace(self.steps, name=STEP).number()

    def _reaches(self, rows: pl.DataFrame, until: int | None) -> pl.DataFrame:
        """Of rows in order the number of their steps, and for how many steps each stands: for its own and those of the gap behind it."""
        found = rows.select(self._number().cast(pl.Int128).alias(NUMBER), *self.by)
        same = pl.all_horizontal(pl.lit(value=True), *(pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in self.by))
        ahead = pl.when(pl.int_range(pl.len()) == pl.len() - 1).then(until).when(same).then(pl.col(NUMBER).shift(-1))
        return found.select(NUMBER, (ahead - pl.col(NUMBER)).fill_null(1).alias(REACH))

    def ends(self, part: Part) -> list[Ends]:
        """A part's."""
        found = self._reaches(part.frame, None)
        first, last = (found[NUMBER][0], found[NUMBER][-1]) if part.rows else (None, None)
        return [Ends(self.series.edge(part), first, last, int(found[REACH].sum()))]

    def beside(self, ends: Sequence[Ends]) -> list[Beside]:
        """What lies around each part, in their order. Raises DataError where there would be too many steps."""
        carries = self.series.carries([one.edge for one in ends])
        there = [(number, one.edge) for number, one in enumerate(ends) if one.edge is not None]
        found = [Beside(carry, None, one.rows) for one, carry in zip(ends, carries, strict=True)]
        for (number, edge), (following, other) in pairwise(there):
            last, first = ends[number].last, ends[following].first
            if last is not None and first is not None and alike(edge.last, other.first, self.by):
                found[number] = found[number]._replace(until=first, rows=ends[number].rows + first - last - 1)
        if (most := max(one.rows for one in found)) > MOST_STEPS:
            raise DataError(f"in a part of the rows alone there would be {most:,} steps. Take a longer one.", key="every")
        return found

    def known(self, rows: pl.LazyFrame, beside: Sequence[Beside], number: int) -> pl.LazyFrame:
        """A part, and beside each row what is known before the gap behind it, and after. No gap is near a row without a step."""
        names, carry = rows.collect_schema().names(), beside[number].carry
        placed = placed_in(rows, self.by).with_columns(as_number(STEP).alias(PLACE))
        lines = [expr for name in self.lines for expr in around(name, PLACE)]
        before = [pl.col(name).forward_fill().over(START).alias(seen(name, "before")) for name in self.forward]
        later = [pl.col(seen(name, "after")) for line in self.lines for name in (line, f"{PLACE}:{line}")]
        placed = placed.with_columns(*lines, *before)
        placed = placed.with_columns(pl.when(pl.col(AT) < pl.col(END)).then(name.shift(-1)) for name in later)
        carried = [*put_in(carry, {name: name for name in self.lines}, PLACE)]
        carried += put_in(carry, {name: name for name in self.forward}, sides=["before"])
        return placed.with_columns(carried).select(*names, *(expr.meta.output_name() for expr in (*lines, *before)))

    def stretch(self, part: Part, beside: Sequence[Beside], number: int, low: int, high: int) -> Part:
        """Of the steps of a part those from one to another; GAP marks those that were not there, where columns of the result are null."""
        numbers, reach = self._reaches(part.frame, beside[number].until).select(pl.col(NUMBER, REACH).cast(pl.Int64))
        ends = np.cumsum(reach.to_numpy())
        starts = ends - reach.to_numpy()
        first, last = np.searchsorted(ends, low, side="right"), np.searchsorted(starts, high)
        counts = np.minimum(ends, high)[first:last] - np.maximum(starts, low)[first:last]
        rows: Any = np.repeat(np.arange(first, last), counts)
        behind = pl.Series(np.arange(low, high) - starts[rows])
        found = part.frame[rows].with_columns((numbers.gather(rows) + behind).alias(NUMBER), (behind > 0).alias(GAP))
        step = pl.when(GAP).then(self.steps.begin(pl.col(NUMBER))).otherwise(STEP).alias(STEP)
        found = found.with_columns(step, *(pl.when(~pl.col(GAP)).then(name).alias(name) for name in self.rules))
        if self.steps.zone:  # where a clock was put on by a day, steps of it never were
            found = found.filter(~pl.col(GAP) | (self._number() == pl.col(NUMBER)))
        return Part(found.drop(NUMBER))


def _counts(beside: Sequence[Beside]) -> list[int]:
    return [one.rows for one in beside]
