"""Numbers within bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, FittedRows, Share, need_numeric
from pipeline.stages.features._counted import NUMBERS, numbers_counted, quantiles
from pipeline.tables.part import Schema
from pipeline.tables.ranks import Counted


class Clip(FittedRows, name="clip", version=1):
    """Put numbers below a least one up to it, and those above a greatest down to it: bounds that are given, or quantiles that are learned.

    Missing stays missing, and so does a column without values to learn from. With bounds a column keeps its type, with quantiles it is
    Float64. The table NAME.fitted has column, count and the two bounds (low, high).

    Example: {use: clip, from: filled, as: clipped, columns: [income, debt], quantiles: [0.01, 0.99], fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to clip: numbers.")
    min: float | int | None = Field(None, description="The least value.")
    max: float | int | None = Field(None, description="The greatest value.")
    quantiles: tuple[Share, Share] | None = Field(
        None, description="Shares of the rows to learn from that are the bounds, in place of them."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        bounds = [bound for bound in (self.min, self.max) if bound is not None]
        if bool(bounds) == (self.quantiles is not None):
            raise ValueError("give bounds (min, max or both) or quantiles")
        ends = list(self.quantiles or bounds)
        if ends != sorted(ends) or not all(map(math.isfinite, ends)):
            raise ValueError(f"the bounds {ends} must be numbers, the lesser one first")
        if self.quantiles is None and self.fit_where is not None:
            raise ValueError("bounds are not learned: leave out fit_where, or give quantiles")
        return self

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, hold numbers, and can hold the bounds."""
        need_numeric(schema, self.columns, key="columns")
        for name in self.columns:
            for key, bound in (("min", self.min), ("max", self.max)):
                if bound is not None and not _fits(bound, schema.columns[name]):
                    what = f"column {name!r} is {schema.columns[name]}, which {bound} is no value of"
                    raise StageError(f"{what}. Cast the column before, or take another bound.", key=key)

    def writes(self) -> frozenset[str]:
        """The columns clipped."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every value with its count; nothing where bounds are given."""
        values = numbers_counted(rows, self.columns)
        return values if self.quantiles else values.head(0)

    def ranked(self) -> tuple[Sequence[Counted], Sequence[float]]:
        """The values, and the quantiles that are the bounds."""
        return ((NUMBERS,), self.quantiles) if self.quantiles else ((), ())

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, count and bounds."""
        low, high = self.quantiles or (0.0, 1.0)
        return quantiles(partial, {"low": low, "high": high})

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with the columns clipped."""
        if self.quantiles is None:
            schema = rows.collect_schema()
            return rows.with_columns(_clipped(pl.col(name), schema[name], self.min, self.max).alias(name) for name in self.columns)
        bounds = {name: (low, high) for name, low, high in fitted.select("column", "low", "high").iter_rows()}
        found = {name: bounds.get(name, (None, None)) for name in self.columns}
        return rows.with_columns(_clipped(pl.col(name).cast(pl.Float64), pl.Float64(), *ends).alias(name) for name, ends in found.items())


def _clipped(value: pl.Expr, dtype: pl.DataType, low: Any, high: Any) -> pl.Expr:
    least, most = pl.lit(low, dtype=dtype), pl.lit(high, dtype=dtype)
    clipped = pl.when(value < least).then(least).otherwise(value) if low is not None else value
    return pl.when(clipped > most).then(most).otherwise(clipped) if high is not None else clipped


def _fits(bound: float, dtype: pl.DataType) -> bool:
    """Whether a bound is a value of a type."""
    if dtype == pl.Boolean or (dtype.is_integer() and bound != int(bound)):
        return False
    try:
        pl.Series([int(bound) if dtype.is_integer() else bound]).cast(dtype)
    except pl.exceptions.PolarsError:
        return False
    return True
