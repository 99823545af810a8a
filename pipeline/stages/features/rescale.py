"""Numbers on a scale of their own: by the median and the quartiles, or from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import polars as pl
from pydantic import Field

from pipeline.sql.checks import Problem, failing
from pipeline.sql.expression import Value, finite
from pipeline.stage import ColumnNames, FittedRows, need_numeric
from pipeline.stages.features._counted import NUMBERS, number, numbers_counted, quantiles
from pipeline.tables.infinities import counted
from pipeline.tables.part import Schema
from pipeline.tables.ranks import Counted

ENDS: Mapping[str, tuple[str, str, str]] = {"robust": ("median", "lower", "upper"), "min_max": ("least", "least", "greatest")}
SHARES = {"robust": {"lower": 0.25, "median": 0.5, "upper": 0.75}, "min_max": {"least": 0.0, "greatest": 1.0}}


class Rescale(FittedRows, name="rescale", version=1):
    """Scale numbers, Float64: robust takes away the median and divides by the distance of the quartiles, min_max goes from 0 to 1.

    `standardize` is for mean and deviation. Missing stays missing. A value that is infinite, or NaN, counts as missing; so does one
    whose result would be. Where the distance is 0 nothing is divided. Rows that were not learned from may be below 0 or above 1.
    The table NAME.fitted has column, count and the quantiles (lower, median, upper; least, greatest).

    Example: {use: rescale, from: filled, as: scaled, columns: [income, debt], method: robust, fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to scale: numbers.")
    method: Literal["robust", "min_max"] = Field(description="By median and quartiles, or by the least and the greatest value.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold numbers."""
        need_numeric(schema, self.columns, key="columns")

    def writes(self) -> frozenset[str]:
        """The columns scaled."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every value with its count; of min_max the two ends."""
        values = numbers_counted(rows, self.columns)
        if self.method == "robust":
            return values
        return values.group_by("column").agg(pl.col("rows").sum(), pl.col("value").min(), pl.col("value").max().alias("greatest"))

    def ranked(self) -> tuple[Sequence[Counted], Sequence[float]]:
        """The values, and the quantiles of `robust`."""
        return ((NUMBERS,), tuple(SHARES["robust"].values())) if self.method == "robust" else ((), ())

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, count and its quantiles."""
        if self.method == "robust":
            return quantiles(partial, SHARES["robust"])
        least, greatest = pl.col("value").min().alias("least"), pl.col("greatest").max()
        return partial.group_by("column").agg(pl.col("rows").sum().alias("count"), least, greatest).sort("column")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with the columns scaled."""
        state = {row["column"]: row for row in fitted.iter_rows(named=True)}
        values = {name: self._scaled(name, state.get(name, {})) for name in self.columns}
        return rows.with_columns(counted(rows, value).alias(name) for name, value in values.items())

    def _scaled(self, name: str, found: Mapping[str, Any]) -> Value:
        center, low, high = (found.get(end) for end in ENDS[self.method])
        value, infinite = number(name), pl.col(name).cast(pl.Float64).is_infinite()
        if center is None or low is None or high is None:
            return Value(pl.when(value.is_null()).then(value).otherwise(None), pl.Float64(), infinite)
        problem = Problem(
            f"the distance that {name!r} is divided by is beyond Float64", "Divide the column in a derive before.", (), "columns"
        )
        beyond = pl.lit(high - low) == float("inf")
        scaled = finite((failing(value, beyond, problem) - center) / ((high - low) or 1.0), pl.Float64())
        return Value(scaled, pl.Float64(), infinite | (value.is_not_null() & scaled.is_null()))
