"""What a stage learns of a table part by part, brought together: beyond memory less of it comes to one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import polars as pl

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


def gathered(table: Table, stage: Any) -> Table:
    """What a stage found part by part, as one part.

    Beyond memory without values on which no quantile falls that it asks for, and sums that different parts have of the same keys are one.
    """
    if not table.is_beyond:
        return table.gather()
    counted, shares = stage.ranked() if isinstance(stage, Ranked) else ((), ())
    if counted:
        return with_ranks(table, counted, Wanted(tuple(shares)))
    if isinstance(stage, AddedUp):
        keys, sums = stage.sums()
        return table.exchange(keys).map(_added, list(keys), list(sums), whole="groups").gather()
    return table.gather()


def _added(rows: pl.LazyFrame, keys: list[str], sums: list[str]) -> pl.LazyFrame:
    """One row a key; those without any of the keys (what tells which rows were learned from) as they are."""
    names, without = rows.collect_schema().names(), pl.all_horizontal(pl.col(keys).is_null())
    added = rows.filter(~without).group_by(keys).agg(pl.col(sums).sum())
    return pl.concat([rows.filter(without), added], how="diagonal").select(names)
