"""What stages learn of columns by the distinct values of all parts with their counts: exact, however rows are divided. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.sql.expression import finite
from pipeline.stage import ColumnNames, FittedRows, need_columns
from pipeline.tables.part import Schema
from pipeline.tables.ranks import Counted

NUMBERS = Counted("value", "rows", of="column")
"""Of `numbers_counted`: a series a column."""
NEAR = 1e-9  # how far a place may be from a whole number and is it: 3 / 7 of 70 rows is the 30th and no fraction more


def need_categories(schema: Schema, names: Sequence[str], *, key: str) -> None:
    """Raise StageError for a column that is missing, or is neither text, integer nor boolean."""
    need_columns(schema, names, key=key)
    for name in names:
        dtype = schema.columns[name]
        if not (dtype.is_integer() or dtype in {pl.String, pl.Boolean}):
            what = f"column {name!r} is {dtype}, and categories are text, integers or booleans"
            raise StageError(f"{what}. Leave it a number, or cast it.", key=key)


def texts_counted(rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """Column, value (as text) and rows: every category of every column that is not missing."""
    texts = rows.select(pl.col(names).cast(pl.String)).unpivot(variable_name="column", value_name="value").drop_nulls()
    return texts.group_by("column", "value").agg(pl.len().cast(pl.Int64).alias("rows"))


def numbers_counted(rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """The same of numbers: every finite value, as Float64."""
    values = rows.select(number(name).alias(name) for name in names).unpivot(variable_name="column", value_name="value").drop_nulls()
    return values.group_by("column", "value").agg(pl.len().cast(pl.Int64).alias("rows"))


def number(name: str) -> pl.Expr:
    """A column's finite values as Float64, without a zero below zero."""
    return finite(pl.col(name).cast(pl.Float64), pl.Float64()) + 0.0


def quantiles(partial: pl.LazyFrame, shares: Mapping[str, float]) -> pl.LazyFrame:
    """A row a column, in the order of their names: column, count, and its quantiles by name, on the line between two values.

    Of n values in order the quantile of share q is at (n - 1) q, counted from 0 (Hyndman & Fan 1996, Am Stat 50:361-365, type 7).
    """
    counts = partial.group_by("column", "value").agg(pl.col("rows").sum()).sort("column", "value")
    placed = counts.with_columns(
        pl.col("rows").cum_sum().over("column").alias("reached"), pl.col("rows").sum().over("column").alias("count")
    )
    ends = []
    for name, share in shares.items():
        place = (pl.col("count") - 1).cast(pl.Float64) * share
        whole = (place + 0.5).floor()
        place = pl.when((place - whole).abs() < NEAR).then(whole).otherwise(place)
        for end, at in (("low", place.floor()), ("high", place.ceil())):
            ends.append(pl.when(pl.col("reached") > at).then(pl.col("value")).otherwise(None).min().alias(f"{name}:{end}"))
        ends.append((place - place.floor()).max().alias(f"{name}:part"))
    found = placed.group_by("column").agg(pl.col("count").max(), *ends).sort("column")
    return found.select("column", "count", *(_between(name) for name in shares))


def shares(partial: pl.LazyFrame, offset: float) -> pl.LazyFrame:
    """Column, count, and each value with its share (r - c) / (n - 2c + 1), in order: r is the mean rank of equal values, c the offset."""
    counts = partial.group_by("column", "value").agg(pl.col("rows").sum()).sort("column", "value")
    reached, count = pl.col("rows").cum_sum().over("column"), pl.col("rows").sum().over("column")
    rank = reached - (pl.col("rows") - 1) / 2
    share = (rank - offset) / (count - 2 * offset + 1)
    return counts.select("column", count.alias("count"), "value", share.alias("share"))


def _between(name: str) -> pl.Expr:
    low, high, part = (pl.col(f"{name}:{end}") for end in ("low", "high", "part"))
    return pl.when(low == high).then(low).otherwise(low * (1 - part) + high * part).alias(name)


class CategoryCounts(FittedRows):
    """A stage that learns of columns how many rows have each category: of so many as there may be, in several parts."""

    order: ClassVar[tuple[str, ...]] = ("column", "value")
    nulls_first: ClassVar[tuple[str, ...]] = ()
    numbered: ClassVar[str] = ""

    columns: ColumnNames = Field(description="The columns to encode: text, integers or booleans.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold categories."""
        need_categories(schema, self.columns, key="columns")

    def writes(self) -> frozenset[str]:
        """The columns encoded."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every column's values with their counts."""
        return texts_counted(rows, self.columns)

    def sums(self) -> tuple[Sequence[str], Sequence[str]]:
        """Rows of each column and value."""
        return ("column", "value"), ("rows",)

    def wanted(self, rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """A column's values."""
        return rows.select(pl.col(column).cast(pl.String).alias("value"))
