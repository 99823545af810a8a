"""Groups as stretches of sorted rows: where each begins and ends, so that a look at other rows is a look by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import polars as pl
from pydantic import BeforeValidator

from pipeline.sql.checks import Problem, failing
from pipeline.stage import ColumnName
from pipeline.tables.names import Order
from pipeline.tables.part import hidden
from pipeline.tables.sorting import put_in_order
from pipeline.tables.table import Table

# Columns that make a group; none: all rows are one.
By = Annotated[tuple[ColumnName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
Ties = Literal["columns", "refuse"]
TIES = "Rows of a group that tie in the order: by all other columns, or an error. `refuse` sorts fewer columns."

AT, START, END = "__at__", "__start__", "__end__"
"""The number of a row in its part, of its group's first row and of its last: Int64."""


def grouped(rows: Table, by: Sequence[str]) -> Table:
    """Rows of a group in one part; all rows in one where there are no keys."""
    return rows.exchange(by) if by else rows.gather()


def in_order(rows: pl.LazyFrame, by: Sequence[str], order: Order, ties: Ties = "columns") -> pl.LazyFrame:
    """The rows in the order of their groups, then in theirs, rows that tie by all other columns; with AT, START and END.

    With `refuse` a tie fails the run. Without an order a group's rows stay as they came.
    """
    own, wanted, others = hidden(rows), Order(by).then(order), list[str]()
    if ties == "columns" and order:
        schema = rows.collect_schema()
        others = [*(name for name in schema if name not in {*wanted.names, *own} and not schema[name].is_nested()), *own]
    placed = placed_in(put_in_order(rows, wanted, others) if wanted else rows, by)
    return without_ties(placed, by, order) if ties == "refuse" and order else placed


def placed_in(rows: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """Rows that are in the order of their groups, with AT, START and END."""
    placed = rows.with_row_index(AT).with_columns(pl.col(AT).cast(pl.Int64))
    placed = placed.with_columns(pl.when(is_other(by)).then(pl.col(AT)).otherwise(0).cum_max().alias(START))
    return placed.with_columns(pl.col(AT).max().over(START).alias(END))


def without_ties(placed: pl.LazyFrame, by: Sequence[str], order: Order, *, on: str = AT, first: bool = False) -> pl.LazyFrame:
    """Fails, where the column `on` is asked for, if rows of a group tie in the order; `first`: the first row ties with one before these."""
    named = order.names
    tied = (pl.col(AT) > pl.col(START)) & ~is_other(named)
    what = f"rows of a group tie in {', '.join(map(repr, named))}"
    problem = Problem(what, "Order by more columns, or leave out ties.", (*by, *named), "ties")
    return placed.with_columns(failing(pl.col(on), tied | (pl.lit(first) & (pl.col(AT) == 0)), problem).alias(on))


def is_other(names: Sequence[str]) -> pl.Expr:
    """Whether a row of sorted rows differs in one of the columns from the row before; the first row does."""
    others = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in names]
    return pl.any_horizontal(pl.col(AT) == 0, *others)


def row_before(value: pl.Expr, rows: int) -> pl.Expr:
    """The value so many rows before (after, where negative), null where that is another group's."""
    within = pl.col(AT) - pl.col(START) >= rows if rows >= 0 else pl.col(END) - pl.col(AT) >= -rows
    return pl.when(within).then(value.shift(rows)).otherwise(None)
