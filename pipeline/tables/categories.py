"""What a stage learns of so many categories that no task may hold it: rows in order, in several parts on disk, looked up there.

A task that applies it has the rows of its part, what was learned of the values that these have, and of all that was learned one part at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import polars as pl

from pipeline.backend.engines import collect
from pipeline.tables.budget import Size
from pipeline.tables.laid import Laid
from pipeline.tables.looked_up import BESIDE, looked_up, shown
from pipeline.tables.names import Order
from pipeline.tables.on_disk import held, held_with
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Part, frame_size
from pipeline.tables.reduced import together
from pipeline.tables.steps import Step
from pipeline.tables.table import Table

VALUE = ("column", "value")
"""A category: the column that it is of, and its text."""
TWICE = 2
"""Learned rows that come of a row of sums, at most: one of its own, and one of all that have its value."""


@runtime_checkable
class Categories(Protocol):
    """A stage that learns rows of columns' values, from sums by `VALUE`: what a row becomes is of its own values' and a few others."""

    columns: tuple[str, ...]
    order: ClassVar[tuple[str, ...]]
    """How its learned rows are ordered."""
    nulls_first: ClassVar[tuple[str, ...]]
    """The columns among these whose missing values come first; of others last."""
    numbered: ClassVar[str]
    """The column, if any, that numbers a column's learned rows in this order: `of_values` leaves it missing."""

    def sums(self) -> tuple[Sequence[str], Sequence[str]]:
        """As `AddedUp` has it."""

    def wanted(self, rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """Of a column of rows what tells the learned rows that they need: the value, as text, and what else there is."""

    def totals(self) -> tuple[Sequence[str], Sequence[pl.Expr]]:
        """What is needed of all sums, by which of their columns: few rows that add up."""

    def of_values(self, sums: pl.LazyFrame, totals: pl.LazyFrame) -> pl.LazyFrame:
        """The learned rows of some values, from all sums that these have."""

    def beside(self, totals: pl.LazyFrame, found: pl.LazyFrame | None = None) -> pl.LazyFrame:
        """Learned rows of no value; to apply only those `found` of some values, also what is needed of all others."""


class Told(NamedTuple):
    """Of parts of sums: the totals, and the size of all."""

    totals: pl.DataFrame
    rows: int
    nbytes: float


@dataclass(frozen=True)
class Sums:
    """Sums, each value's in one part, on disk; `told` is a future."""

    table: Table
    told: Any
    size: Size

    @staticmethod
    def of(table: Table, stage: Categories) -> Sums:
        """Of a table of them. Waits for it."""
        blocks, found = held_with(table, partial(_told, stage))
        told = together(table, partial(_all_told, stage), found)
        size: Size = table.session.value(table.session.submit(_size, told, stage=table.stage))
        return Sums(replace(table, blocks=blocks), told, size)


def too_many(table: Table, size: Size | None) -> bool:
    """Whether learned rows of such a size, in several parts, are more than each of the tasks may hold that run at once."""
    budget = table.session.budget
    if budget is None or size is None or len(table.blocks) == 1:
        return False
    return not budget.holds(Size(size.rows * budget.at_once, size.row_bytes))


@dataclass(frozen=True)
class InParts:
    """Learned rows in several parts on disk: a future of where the values of each are, and one of the totals."""

    stage: Any
    laid: Table
    places: Any
    totals: Any

    @staticmethod
    def of(sums: Sums, stage: Any) -> InParts:
        """From sums. Waits for them to be put in order."""
        session, name = sums.table.session, sums.table.stage
        assert session.budget is not None
        totals = session.submit(_totals, sums.told, stage=name)
        beside = Table.of(session, name, [totals]).map(_of_no_value, stage)
        rows = sums.table.map(_of_values, stage, totals).concat(beside)
        rows = replace(rows, size=Size(max(TWICE, session.budget.at_once) * sums.size.rows, sums.size.row_bytes))
        ordered = in_order(rows, _order(stage))
        blocks, found = held_with(ordered, _place)
        places = session.submit(_places, together(ordered, _one_after_another, found), stage=name)
        laid = replace(ordered, blocks=blocks)
        if stage.numbered:
            steps = (
                Step("part", name, (block,), partial(_numbered, number=number), (stage.numbered, places))
                for number, block in enumerate(blocks)
            )
            laid = replace(laid, blocks=tuple(steps))
            laid = replace(laid, blocks=held(laid))
        return InParts(stage, laid, places, totals)

    @property
    def state(self) -> Table:
        """The learned rows, as who keeps them brings them together."""
        return self.table

    @property
    def table(self) -> Table:
        """The learned rows."""
        return self.laid.map(shown)

    def applied(self, rows: Table, apply: Callable[..., pl.LazyFrame]) -> Table:
        """What `apply(LazyFrame, Part)` makes of rows with the learned ones."""
        sources = [block.source for block in self.laid.blocks]
        parts = rows.session.submit(list, sources, stage=rows.stage, on_host=True)
        return rows.map_parts(_applied, self.stage, apply, self.totals, self.places, parts, writes=self.stage.writes())


def _told(stage: Categories, part: Part) -> Told:
    by, totals = stage.totals()
    values = collect(_of_some_value(part.frame.lazy(), stage), "cpu")
    return Told(values.group_by(by).agg(totals), values.height, frame_size(values))


def _all_told(stage: Categories, found: Sequence[Told]) -> Told:
    by, _ = stage.totals()
    totals = pl.concat([one.totals for one in found]).group_by(by).agg(pl.all().sum())
    return Told(totals, sum(one.rows for one in found), sum(one.nbytes for one in found))


def _size(told: Told) -> Size:
    return Size(told.rows, ceil(told.nbytes / max(1, told.rows)))


def _totals(told: Told) -> Part:
    return Part(told.totals)


def _of_some_value(rows: pl.LazyFrame, stage: Categories) -> pl.LazyFrame:
    """The sums without rows of no value, which tell which rows were learned from: some were, or there would not be so many."""
    keys, sums = stage.sums()
    return rows.filter(~pl.all_horizontal(pl.col(keys).is_null())).select(*keys, *sums)


def _mark(name: str) -> str:
    return f"__{name}__"


def _order(stage: Categories) -> Order:
    return Order([each for name in stage.order for each in ([_mark(name), name] if name in stage.nulls_first else [name])])


def _marked(stage: Categories, rows: pl.LazyFrame, *, beside: bool) -> pl.LazyFrame:
    marks = [pl.col(name).is_not_null().alias(_mark(name)) for name in stage.nulls_first]
    return rows.with_columns(*marks, pl.lit(beside).alias(BESIDE))


def _of_values(rows: pl.LazyFrame, stage: Categories, totals: Part) -> pl.LazyFrame:
    return _marked(stage, stage.of_values(_of_some_value(rows, stage), totals.frame.lazy()), beside=False)


def _of_no_value(totals: pl.LazyFrame, stage: Categories) -> pl.LazyFrame:
    return _marked(stage, stage.beside(totals), beside=True)


def _place(part: Part) -> list[pl.DataFrame]:
    """Of each column in a part, in order: rows, the least and the greatest value, and whether a missing one is among them."""
    value = pl.col("value")
    missing = (value.is_null() & ~pl.col(BESIDE)).any().alias("missing")
    found = part.frame.group_by("column", maintain_order=True)
    return [found.agg(pl.len().cast(pl.Int64).alias("rows"), value.min().alias("least"), value.max().alias("greatest"), missing)]


def _one_after_another(found: Sequence[list[pl.DataFrame]]) -> list[pl.DataFrame]:
    return [one for some in found for one in some]


def _places(found: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The same with the part's number, the place in it where the column starts, and the column's rows in parts before."""
    rows = pl.concat([one.with_columns(pl.lit(number).alias("number")) for number, one in enumerate(found)])
    reached = [pl.col("rows").cum_sum().over(name) - pl.col("rows") for name in ("number", "column")]
    return rows.with_columns(reached[0].alias("start"), reached[1].alias("before"))


def _numbered(part: Part, name: str, places: pl.DataFrame, number: int) -> Part:
    here = places.filter(pl.col("number") == number)
    first = pl.col("column").replace_strict(here["column"], here["before"] - here["start"], return_dtype=pl.Int64)
    count = (pl.int_range(pl.len()) + first).cast(part.frame.schema[name])
    return part.replaced(part.frame.with_columns(pl.col(name).fill_null(count)))


def _applied(
    part: Part, stage: Categories, apply: Callable[..., pl.LazyFrame], totals: Part, places: pl.DataFrame, parts: Sequence[Laid]
) -> Part:
    wanted = {name: collect(stage.wanted(part.frame.lazy(), name).unique(), "cpu") for name in stage.columns}
    found = looked_up(wanted, places, parts)
    beside = collect(stage.beside(totals.frame.lazy(), found.lazy()), "cpu")
    return part.replaced(collect(apply(part.frame.lazy(), Part(pl.concat([beside, found]))), "cpu"))
