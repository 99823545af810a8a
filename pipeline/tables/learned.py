"""What a stage learns of a table part by part, brought together: beyond memory less of it comes to one place, and too many rows to none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import polars as pl

from pipeline.tables.categories import VALUE, Categories, InParts, Sums, too_many
from pipeline.tables.picked import need_picked
from pipeline.tables.ranks import Counted, Wanted, with_ranks
from pipeline.tables.table import Table


@runtime_checkable
class Ranked(Protocol):
    """A stage that learns from counts of values, and asks of some of them for quantiles alone."""

    def ranked(self) -> tuple[Sequence[Counted], Sequence[float]]:
        """Where its counts of these are, and the shares of the quantiles."""


@runtime_checkable
class AddedUp(Protocol):
    """A stage that learns from sums, those of rows that have the same keys."""

    def sums(self) -> tuple[Sequence[str], Sequence[str]]:
        """The keys of its sums, none of them missing in all, and the sums."""


@dataclass(frozen=True)
class InOne:
    """What a stage has learned, as one part: `state` is a future of it, `table` has it."""

    stage: Any
    state: Any
    table: Table

    def applied(self, rows: Table, apply: Callable[..., Any]) -> Table:
        """What `apply(LazyFrame, Part)` makes of rows with the state; of a stage `by_parts` it takes parts."""
        return (rows.map_parts if self.stage.by_parts else rows.map)(apply, self.state, writes=self.stage.writes())


def learned(found: Table, stage: Any) -> InOne | InParts:
    """What a stage learns from what it `found` part by part. A task raises DataError where `fit_where` picked no row.

    Beyond memory, categories that are more than a task may hold stay in several parts; to know that waits for them.
    """
    if found.is_beyond and isinstance(stage, Categories):
        added = _added(found, stage, VALUE)
        sums = Sums.of(added, stage) if too_many(added, added.size) else None
        if sums is not None and too_many(sums.table, sums.size):
            return InParts.of(sums, stage)
        whole = (added if sums is None else sums.table).gather()
    else:
        whole = gathered(found, stage)
    if stage.fit_where is not None:
        whole = whole.map_parts(need_picked, stage.fit_where)
    state = whole.map(stage.merge).value()
    return InOne(stage, state, Table.of(found.session, found.stage, [state]))


def gathered(table: Table, stage: Any) -> Table:
    """What a stage found part by part, as one part.

    Beyond memory without values on which no quantile falls that it asks for, and sums that different parts have of the same keys are one.
    """
    if not table.is_beyond:
        return table.gather()
    counted, shares = stage.ranked() if isinstance(stage, Ranked) else ((), ())
    if counted:
        return with_ranks(table, counted, Wanted(tuple(shares)))
    return _added(table, stage, stage.sums()[0]).gather() if isinstance(stage, AddedUp) else table.gather()


def states_of(table: Table) -> list[Any]:
    """What stages before a table learned, each as one part or a future of it: what lies in several is brought together now."""
    return [one.state.value() if isinstance(one.state, Table) else one.state for one in table.fitted]


def _added(table: Table, stage: AddedUp, together: Sequence[str]) -> Table:
    """Sums of equal keys as one, in parts by some of the keys."""
    keys, sums = stage.sums()
    return table.exchange(together).map(_added_up, list(keys), list(sums), whole="groups")


def _added_up(rows: pl.LazyFrame, keys: list[str], sums: list[str]) -> pl.LazyFrame:
    """One row a key; those without any of the keys (what tells which rows were learned from) as they are."""
    names, without = rows.collect_schema().names(), pl.all_horizontal(pl.col(keys).is_null())
    added = rows.filter(~without).group_by(keys).agg(pl.col(sums).sum())
    return pl.concat([rows.filter(without), added], how="diagonal").select(names)
