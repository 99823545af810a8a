"""Windows that look at rows near by, over groups that are more than a task may hold: rows lie in order in several parts, and each part has
the rows around it brought that its own ones look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.stages.relational._ordered.ends import copied, like
from pipeline.stages.relational._ordered.groups import Ties, placed_in, without_ties
from pipeline.stages.relational._ordered.in_parts import each_part, in_parts
from pipeline.stages.relational._ordered.spans import as_number, span_of
from pipeline.stages.relational._window.columns import columns_of
from pipeline.stages.relational._window.functions import ROLLING, SHIFTED, Windowed
from pipeline.stages.relational._window.queries import results, shifted
from pipeline.stages.relational._window.rolling import LEAST, MINE, MOST, Rolled
from pipeline.tables.infinities import counted
from pipeline.tables.names import Order
from pipeline.tables.part import Part
from pipeline.tables.table import Table

NEAR = SHIFTED | ROLLING


class Ends(NamedTuple):
    """Of a part its first and its last row, and the rows at both ends that those of other parts may look at: all of what is looked at."""

    first: pl.DataFrame
    last: pl.DataFrame
    head: pl.DataFrame
    tail: pl.DataFrame


class Around(NamedTuple):
    """The rows before a part and behind it that its own look at."""

    before: pl.DataFrame
    after: pl.DataFrame


@dataclass(frozen=True)
class Near:
    """Windows over rows in the order of their groups and then in theirs, none of which is farther than `rows`, or than `span`."""

    by: tuple[str, ...]
    order: Order
    ties: Ties
    compute: Mapping[str, Windowed]
    schema: pl.Schema
    backend: Backend

    def can(self, rows: Table) -> bool:
        """Whether all functions look at rows near by, and the rows are beyond memory."""
        return rows.is_beyond and all(windowed.function in NEAR for windowed in self.compute.values())

    @property
    def rows(self) -> int:
        """How many rows away one is looked at, at most."""
        return max((one.rows or 1 for one in self.compute.values() if one.span is None), default=0)

    @property
    def span(self) -> int | None:
        """How far away in the order's units one is looked at, at most; None where no window is a span."""
        spans = [one.span for one in self.compute.values() if one.span is not None]
        time = self.order.names[0]
        return max((span_of(span, time, self.schema[time], key="span") for span in spans), default=None)

    def table(self, rows: Table) -> Table:
        """The rows with the results. Waits for them to be put in order."""
        ordered, ends = in_parts(rows, self.by, self.order, self.ties, self.ends)
        around = rows.session.submit(self.around, ends, stage=rows.stage)
        made = each_part(ordered, self.computed, around)
        rolling = tuple(column for column in columns_of(self.schema, self.compute)[1] if column.windowed.in_kernel)
        if rolling:
            made = made.map_parts(Rolled(rolling, self.order.names[0], (*self.by, *self.order.names), self.backend))
        return made.map(_mine)

    def ends(self, part: Part) -> list[Ends | None]:
        """A part's."""
        if not part.rows:
            return [None]
        values = columns_of(part.frame.schema, self.compute)[0]
        valued = part.frame.lazy().select(*self._places, *(value.expr.alias(name) for name, value in values.items()))
        first, last = part.frame.select(self._places).head(1), part.frame.select(self._places).tail(1)
        head = pl.concat([valued.head(self.rows), valued.slice(self.rows).filter(self._within(first))])
        tail = pl.concat([valued.slice(0, max(0, part.rows - self.rows)).filter(self._within(last)), valued.tail(self.rows)])
        found = (first, last, collect(head, "cpu"), collect(tail, "cpu"))
        return [Ends(*map(copied, found))]

    @property
    def _places(self) -> list[str]:
        return [*dict.fromkeys([*self.by, *self.order.names])]

    def _within(self, row: pl.DataFrame) -> pl.Expr:
        """Whether rows are of a row's group, and within the span of its time; none is where there are no spans."""
        if (span := self.span) is None or (at := row.select(as_number(time := self.order.names[0])).item()) is None:
            return pl.lit(value=False)
        return like(row, self.by) & as_number(time).is_between(max(at - span, LEAST), min(at + span, MOST))

    def around(self, ends: Sequence[Ends | None]) -> list[Around]:
        """What each part has brought, in their order."""
        there = [one for one in ends if one is not None]
        before = self._nearest([(one.first, one.tail) for one in there], behind=False)
        after = self._nearest([(one.last, one.head) for one in reversed(there)], behind=True)[::-1]
        each = iter(map(Around, before, after))
        none = pl.DataFrame()
        return [Around(none, none) if one is None else next(each) for one in ends]

    def _nearest(self, parts: Sequence[tuple[pl.DataFrame, pl.DataFrame]], *, behind: bool) -> list[pl.DataFrame]:
        """Of each part, given as the row at its end and its rows there, those rows of the ones before it that are looked at from it."""
        found, rows = list[pl.DataFrame](), parts[0][1].clear() if parts else pl.DataFrame()
        for row, own in parts:
            near = pl.int_range(pl.len()) < self.rows
            near = near if behind else near.reverse()
            found.append(rows.filter(near | self._within(row)))
            rows = pl.concat([own, rows] if behind else [rows, own])
            rows = rows.filter(near | self._within(own[0:1] if behind else own[-1:]))
        return found

    def computed(self, rows: pl.LazyFrame, around: Sequence[Around], number: int) -> pl.LazyFrame:
        """The rows of a part with the results of queries, and with them, MINE says which, those around it: for windows that roll."""
        values, columns = columns_of(rows.collect_schema(), self.compute)
        valued = rows.with_columns(counted(rows, value).alias(name) for name, value in values.items())
        mine = valued.with_columns(pl.lit(value=True).alias(MINE))
        before, after = map(_brought, around[number])
        whole = pl.concat([*before, mine, *after], how="diagonal").select(mine.collect_schema().names())
        placed = placed_in(whole, self.by)
        placed = without_ties(placed, self.by, self.order) if self.ties == "refuse" else placed
        moved = [column for column in columns if not column.windowed.in_kernel]
        aside = placed.with_columns(shifted(moved))
        names = [column.aside("before") for column in moved]  # of rows of others nothing is made, and counted
        return results(aside.with_columns(pl.when(MINE).then(pl.col(name)).otherwise(None).alias(name) for name in names), moved)


def _brought(frame: pl.DataFrame) -> list[pl.LazyFrame]:
    return [frame.lazy().with_columns(pl.lit(value=False).alias(MINE))] if frame.height else []


def _mine(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.filter(MINE)
