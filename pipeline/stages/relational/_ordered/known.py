"""Known values around a part of groups that lie in order in several parts: before its first row and behind its last one, in others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NamedTuple

import polars as pl

from pipeline.backend.engines import collect
from pipeline.stages.relational._ordered.between import SIDES, seen
from pipeline.stages.relational._ordered.ends import alike, copied, one_of
from pipeline.stages.relational._ordered.groups import AT, END, START
from pipeline.stages.relational._ordered.spans import as_number
from pipeline.tables.part import Part

PLACE = "__place__"
"""A row's order as Int64: known values stand at one."""


class Known(NamedTuple):
    """A known value: its row's number, counted from the first one of a part, and a frame of one row with it and its PLACE."""

    at: int
    row: pl.DataFrame


@dataclass(frozen=True)
class Edge:
    """The ends of a part of so many rows: keys and order of its first and last one, the first known values if they are of the first one's
    group, the last known values if they are of the last one's."""

    rows: int
    first: pl.DataFrame
    last: pl.DataFrame
    ahead: Mapping[str, Known]
    behind: Mapping[str, Known]


@dataclass(frozen=True)
class Carry:
    """What lies around a part: the nearest known values before its first row and after its last one, of their groups; whether the first row
    ties with the one before it."""

    before: Mapping[str, Known] = field(default_factory=dict)
    after: Mapping[str, Known] = field(default_factory=dict)
    tied: bool = False


@dataclass(frozen=True)
class Series:
    """Rows in the order of their groups and then in theirs, and the columns of which known values are looked for.

    A value is known where there is one, in a row that has an order.
    """

    by: tuple[str, ...]
    order: str
    values: tuple[str, ...]

    def edges(self, part: Part) -> list[Edge | None]:
        """A part's, in a list, as `in_parts` has them of all."""
        return [self.edge(part)]

    def edge(self, part: Part) -> Edge | None:
        """A part's; None where it has no rows."""
        frame = part.frame
        if not frame.height:
            return None
        keys = [*self.by, self.order]
        known = [pl.when(pl.col(name).is_not_null() & pl.col(self.order).is_not_null()).then(AT).alias(name) for name in self.values]
        rows = frame.lazy().with_row_index(AT).select(known)
        first, last = frame[:1].select(keys), frame[-1:].select(keys)
        ahead, behind = self._of(frame, collect(rows.min(), "cpu"), first), self._of(frame, collect(rows.max(), "cpu"), last)
        return Edge(part.rows, copied(first), copied(last), ahead, behind)

    def _of(self, frame: pl.DataFrame, places: pl.DataFrame, end: pl.DataFrame) -> dict[str, Known]:
        """The values in these rows, by column, that are of the group of the row at the end."""
        found: dict[str, Known] = {}
        for name, (at,) in places.to_dict(as_series=False).items():
            if at is not None and alike(row := frame[at : at + 1], end, self.by):
                found[name] = Known(at, copied(row.select(name, as_number(self.order).alias(PLACE))))
        return found

    def carries(self, edges: Sequence[Edge | None]) -> list[Carry]:
        """What lies around each part, in their order."""
        there = [edge for edge in edges if edge is not None]
        goes_on = [alike(one.last, two.first, self.by) for one, two in pairwise(there)]
        before, after = [dict[str, Known]()], [dict[str, Known]()]
        for edge, same in zip(there, goes_on, strict=False):
            before.append(_moved(self._reached(edge, edge.behind, before[-1]), -edge.rows) if same else {})
        for number in range(len(goes_on) - 1, -1, -1):
            edge = there[number + 1]
            after.append(_moved(self._reached(edge, edge.ahead, after[-1]), there[number].rows) if goes_on[number] else {})
        tied = [False, *(alike(one.last, two.first, [*self.by, self.order]) for one, two in pairwise(there))]
        each = map(Carry, before, reversed(after), tied)
        return [Carry() if edge is None else next(each) for edge in edges]

    def _reached(self, edge: Edge, own: Mapping[str, Known], beyond: Mapping[str, Known]) -> dict[str, Known]:
        """The nearest known values from one side of a part: its own, and those beyond it where all its rows are of one group."""
        return {**beyond, **own} if alike(edge.first, edge.last, self.by) else dict(own)


def put_in(carry: Carry, values: Mapping[str, str], *places: str, sides: Sequence[str] = SIDES) -> list[pl.Expr]:
    """Of rows that are `placed_in` a part, what `around` found of values and their places, and where that is nothing what is carried.

    `values`: of each column that is carried the one that holds its values here.
    """
    ends = {"before": pl.col(START) == 0, "after": pl.col(END) == pl.len() - 1}
    found = list[pl.Expr]()
    for side, (column, value) in product(sides, values.items()):
        if known := (carry.before if side == "before" else carry.after).get(column):
            of_place = {PLACE: one_of(known.row, PLACE), AT: pl.lit(known.at, dtype=pl.Int64)}
            carried = {value: one_of(known.row, column)} | {f"{place}:{value}": of_place[place] for place in places}
            for name, one in carried.items():
                there = pl.col(seen(name, side))
                found.append(pl.when(ends[side] & there.is_null()).then(one).otherwise(there).alias(seen(name, side)))
    return found


def _moved(known: Mapping[str, Known], rows: int) -> dict[str, Known]:
    """The same, counted from a row that is so many before."""
    return {name: one._replace(at=one.at + rows) for name, one in known.items()}
