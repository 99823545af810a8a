"""Windows over groups that are more than a task may hold: rows lie in order in several parts, and each goes on where another ended.

What a function needs of the rows before a part is little: how many of the first row's group there are, how many of them tie with it, and
what running functions carry; rows that are looked back or ahead at are brought, and the last values of groups that go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import polars as pl

from pipeline.backend.engines import collect
from pipeline.stages.relational._ordered.ends import alike, copied, like
from pipeline.stages.relational._ordered.groups import AT, END, START, Ties, placed_in, without_ties
from pipeline.stages.relational._ordered.in_parts import each_part, in_parts
from pipeline.stages.relational._window.carried import RUNNING, Carry, Edge, state_of
from pipeline.stages.relational._window.columns import Column, columns_of
from pipeline.stages.relational._window.functions import RANKED, SHIFTED, UNORDERED, Windowed
from pipeline.stages.relational._window.of_groups import with_whole
from pipeline.stages.relational._window.queries import PEER, asides, results, shifted
from pipeline.stages.relational._window.rolling import Rolled
from pipeline.tables.budget import row_bytes
from pipeline.tables.infinities import counted
from pipeline.tables.names import Order
from pipeline.tables.pairs import large_keys
from pipeline.tables.part import Part
from pipeline.tables.table import Table

FOLLOWING = SHIFTED | RUNNING | RANKED | {"last", "size"}
MINE = "__mine__"
ASIDE = 4
"""Whole numbers that stand beside each row meanwhile: its place, its group's ends, how many rows tie."""


@dataclass(frozen=True)
class Following:
    """Windows over rows in the order of their groups and then in theirs."""

    by: tuple[str, ...]
    order: Order
    ties: Ties
    compute: Mapping[str, Windowed]
    schema: pl.Schema

    @property
    def columns(self) -> list[Column]:
        """What is computed."""
        return columns_of(self.schema, self.compute)[1]

    def can(self, rows: Table) -> bool:
        """Whether these functions go on from part to part or are of whole groups, and the rows are beyond memory and in an order."""
        functions = {windowed.function for windowed in self.compute.values()}
        return rows.is_beyond and functions <= FOLLOWING | UNORDERED and (bool(self.order) or not functions <= UNORDERED)

    @property
    def of_groups(self) -> dict[str, Windowed]:
        """Those that are of whole groups."""
        return {name: windowed for name, windowed in self.compute.items() if windowed.function in UNORDERED - FOLLOWING}

    def applies(self, rows: Table) -> bool:
        """Whether a group of rows that are read twice is more than a task may hold. Waits for their keys to be counted."""
        assert rows.schema is not None
        if not self.by:
            return True
        return large_keys(rows, self.by, row_bytes(rows.schema) + 8 * (ASIDE + len(self.compute))).height > 0

    def table(self, rows: Table, whole: Callable[[Table, pl.DataFrame], Any]) -> Table:
        """The rows with the results. Waits for them to be put in order.

        `whole` gives what is of whole groups, of the rows and those keys whose rows lie in several parts, in a part with a row a key.
        """
        ordered, edges = in_parts(rows, self.by, self.order, self.ties, self.edge)
        carries, said = rows.session.submit(self.carries, edges, stage=rows.stage), tuple[Any, ...]()
        if self.of_groups:
            keys = rows.session.value(rows.session.submit(self.spanning, edges, stage=rows.stage))
            said = (whole(replace(ordered, schema=rows.schema), keys),) if keys.height or not self.by else ()
        made = each_part(ordered, self.computed, carries, *said)
        in_kernel = tuple(column for column in self.columns if column.windowed.in_kernel)
        if not in_kernel:
            return made
        rolled = Rolled(in_kernel, self.order.names[0], (*self.by, *self.order.names), rows.session.backend)
        return each_part(made.map_parts(rolled), self.run, carries)

    @property
    def beside(self) -> int:
        """How many rows away a function looks at most."""
        return max((windowed.rows or 1 for windowed in self.compute.values() if windowed.function in SHIFTED), default=0)

    def edge(self, part: Part) -> list[Edge | None]:
        """A part's."""
        if not part.rows:
            return [None]
        values, columns = columns_of(self.schema, self.compute)
        valued = part.frame.lazy().with_columns(value.expr.alias(name) for name, value in values.items())
        looked_at = [*self.by, *(column.value for column in columns if column.windowed.function in SHIFTED)]
        ends = part.frame.select([*dict.fromkeys([*self.by, *self.order.names])])
        first, last = ends.head(1), ends.tail(1)
        leading = int(ends.select(like(first, self.by).sum()).item()) if self.by else part.rows
        lasts = [column.value for column in columns if column.windowed.function == "last"]
        frames = [valued.head(self.beside).select(looked_at), valued.tail(self.beside).select(looked_at), first.lazy(), last.lazy()]
        frames += [valued.slice(leading - 1, 1).select(lasts), self._last_group(valued, columns, last)]
        head, tail, first, last, lasts_of_first, of_group = (copied(collect(each, "cpu")) for each in frames)
        counts = of_group[AT][0], of_group[PEER][0]
        return [Edge(part.rows, head, tail, first, last, leading, lasts_of_first, *counts, of_group.drop(AT, PEER))]

    def _last_group(self, valued: pl.LazyFrame, columns: Sequence[Column], last: pl.DataFrame) -> pl.LazyFrame:
        """Of the last row's group in a part how many rows there are, how many tie with the last, and what they carry."""
        group = placed_in(valued.filter(like(last, self.by)) if self.by else valued, ())
        running = [column for column in columns if column.windowed.function in RUNNING]
        stands = group.with_columns(asides(running, self.order.names)) if running else group
        return stands.select(pl.len().alias(AT), like(last, self.order.names).sum().alias(PEER), *state_of(running))

    def spanning(self, edges: Sequence[Edge | None]) -> pl.DataFrame:
        """The keys whose rows lie in several parts."""
        there = [edge for edge in edges if edge is not None]
        keys = [after.first.select(self.by) for before, after in pairwise(there) if alike(before.last, after.first, self.by)]
        return pl.concat(keys).unique() if keys else pl.DataFrame()

    def carries(self, edges: Sequence[Edge | None]) -> list[Carry]:
        """What each part goes on from, in their order."""
        there = [edge for edge in edges if edge is not None]
        before = _neighbours([edge.tail for edge in there], self.beside, first=False)
        after = _neighbours([edge.head for edge in reversed(there)], self.beside, first=True)[::-1]
        goes_on = [place > 0 and alike(there[place - 1].last, edge.first, self.by) for place, edge in enumerate(there)]
        behind = [Carry()] * len(there)
        for place in range(len(there) - 2, -1, -1):
            following, beyond = there[place + 1], behind[place + 1]
            if goes_on[place + 1]:
                whole = following.leading == following.rows and beyond.later
                later, lasts = (following.leading + beyond.later, beyond.lasts) if whole else (following.leading, following.lasts)
                behind[place] = Carry(later=later, lasts=lasts)
        found, ended, columns = list[Carry](), Carry(), self.columns
        for place, edge in enumerate(there):
            given = behind[place]._replace(before=before[place], after=after[place])
            if goes_on[place]:
                tied = ended.tied if alike(there[place - 1].last, edge.first, self.order.names) else 0
                given = given._replace(rows=ended.rows, tied=tied, state=ended.state)
            found.append(given)
            ended = _ended(edge, given, columns)
        each = iter(found)
        return [Carry() if edge is None else next(each) for edge in edges]

    def computed(self, rows: pl.LazyFrame, carries: Sequence[Carry], *said: Part, number: int) -> pl.LazyFrame:
        """The rows of a part with the results; `said` is of groups of which other parts have rows, too."""
        carry = carries[number]
        values, columns = columns_of(self.schema, self.compute)
        valued = rows.with_columns(counted(rows, value).alias(name) for name, value in values.items())
        if self.beside:
            mine = valued.with_columns(pl.lit(True).alias(MINE))
            around = [frame.lazy().with_columns(pl.lit(False).alias(MINE)) for frame in (carry.before, carry.after)]
            whole = pl.concat([around[0], mine, around[1]], how="diagonal") if carry.before.width else mine
            valued = placed_in(whole.select(mine.collect_schema().names()), self.by).with_columns(shifted(columns))
            valued = valued.filter(MINE).drop(MINE, AT, START, END)
        placed = placed_in(valued, self.by)
        if carry.later:
            behind = pl.when(pl.col(END) == pl.len() - 1).then(carry.later).otherwise(0)
            placed = placed.with_columns((pl.col(END) + behind).alias(END))
        if carry.rows:
            placed = placed.with_columns(pl.when(pl.col(START) == 0).then(-carry.rows).otherwise(pl.col(START)).alias(START))
        columns = [column for column in columns if not column.windowed.in_kernel]
        aside = placed.with_columns(asides(columns, self.order.names)).with_columns(carry.goes_on(columns).asides() if carry.rows else [])
        if carry.tied and any(column.windowed.function in RANKED for column in columns):
            aside = aside.with_columns(pl.when(pl.col(PEER) == 0).then(-carry.tied).otherwise(pl.col(PEER)).alias(PEER))
        found = results(aside, columns).with_columns(carry.ends(columns))
        for part in said:
            found = with_whole(found, self.by, [column for column in columns if column.name in self.of_groups], part)
        on = columns[0].result if columns else AT
        return without_ties(found, self.by, self.order, on=on, first=carry.tied > 0) if self.ties == "refuse" else found

    def run(self, rows: pl.LazyFrame, carries: Sequence[Carry], number: int) -> pl.LazyFrame:
        """The rows of a part with what is worked out among its own, with what lies before it."""
        carry = carries[number]
        return carry.goes_on(self.columns).run(rows) if carry.rows else rows


def _ended(edge: Edge, given: Carry, columns: Sequence[Column]) -> Carry:
    """What the part after an edge's goes on from, where it has the same group and the same place in the order."""
    rows, tied, state = edge.group, edge.tied, edge.state
    if edge.group == edge.rows and given.rows:
        rows += given.rows
        state = given.goes_on(columns).joined(state)
    return Carry(rows, tied + (given.tied if edge.tied == edge.rows else 0), state)


def _neighbours(frames: Sequence[pl.DataFrame], count: int, *, first: bool) -> list[pl.DataFrame]:
    """Of each frame so many rows of those before it, the nearest ones; `first`: of those after it, and they are given from the last on."""
    found, rows = list[pl.DataFrame](), frames[0].clear() if frames else pl.DataFrame()
    for frame in frames:
        found.append(rows)
        rows = pl.concat([frame, rows]).head(count) if first else pl.concat([rows, frame]).tail(count)
    return found
