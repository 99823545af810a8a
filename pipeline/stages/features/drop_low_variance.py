"""Drop columns that hardly vary."""

from __future__ import annotations

import math

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.sql.expression import finite
from pipeline.stage import ColumnName, ColumnNames, FittedRows, need_numeric
from pipeline.stages.features._counted import numbers_counted
from pipeline.tables.part import Schema

SHARE, MEAN, APART = "__share__", "__mean__", "__apart__"
LEAST = math.ulp(0.0)  # what values that are not all one vary by, if their squares do not say it


class DropLowVariance(FittedRows, name="drop_low_variance", version=1):
    """Drop the columns that are named in `dropped`, having made sure that these, and no others of `columns`, vary no more than a threshold.

    What a table's columns are is known before any row is read, so a job states which ones go: run it once without `dropped`, and the
    error names those to write there. Later data that says otherwise fails the run, with the columns; `strict: false` lets columns that
    have come to vary little stay, and only makes sure of those that go. The variance is that of all rows learned from (n, not n - 1), null
    beyond Float64; a column without values varies least. The table NAME.fitted has column, seen (rows), count (values) and variance.

    Example: {use: drop_low_variance, from: filled, as: kept, columns: [fee, term, age], dropped: [fee], fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to look at: numbers.")
    dropped: tuple[ColumnName, ...] = Field((), description="Those of them that vary no more, and go.")
    threshold: float = Field(0.0, ge=0, description="The greatest variance of a column that goes; 0: all its values are one.")
    strict: bool = Field(True, description="Whether a column that varies as little and is not named in dropped fails the run.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold numbers."""
        need_numeric(schema, self.columns, key="columns")
        if others := [name for name in self.dropped if name not in self.columns]:
            raise StageError(f"{others[0]!r} is not one of columns, which are looked at", key="dropped")

    def writes(self) -> frozenset[str]:
        """The columns that go."""
        return frozenset(self.dropped)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every value with its count, and how many rows there are."""
        seen = rows.select(pl.len().cast(pl.Int64).alias("seen"))
        return pl.concat(
            [numbers_counted(rows, self.columns), *(seen.with_columns(pl.lit(name).alias("column")) for name in self.columns)],
            how="diagonal",
        )

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, seen, count and variance."""
        seen = partial.group_by("column").agg(pl.col("seen").sum())
        values = partial.drop_nulls("value").group_by("column", "value").agg(pl.col("rows").sum()).sort("column", "value")
        values = values.with_columns((pl.col("rows") / pl.col("rows").sum().over("column")).alias(SHARE))
        values = values.with_columns((pl.col("value") * pl.col(SHARE)).alias(MEAN)).with_columns(pl.col(MEAN).sum().over("column"))
        values = values.with_columns(((pl.col("value") - pl.col(MEAN)) ** 2 * pl.col(SHARE)).alias(APART))
        total = pl.col(APART).sum()
        some = pl.when(total == 0).then(LEAST).otherwise(finite(total, pl.Float64()))
        spread = pl.when(pl.col("value").min() < pl.col("value").max()).then(some).otherwise(0.0)
        found = values.group_by("column").agg(pl.col("rows").sum().alias("count"), spread.alias("variance"))
        whole = seen.join(found, on="column", how="left", maintain_order="left").with_columns(pl.col("count").fill_null(0))
        return whole.select("column", "seen", "count", "variance").sort("column")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows without those columns. Raises DataError where others vary as little, or one of them does not."""
        known = fitted.filter(pl.col("seen") > 0)
        low = set(known.filter((pl.col("count") == 0) | (pl.col("variance") <= self.threshold))["column"])
        if varying := [name for name in self.dropped if known.height and name not in low]:
            variance = known.filter(pl.col("column") == varying[0])["variance"].item()
            what = f"column {varying[0]!r} has a variance of {variance:.6g}, above {self.threshold:g}, and would be dropped"
            raise DataError(f"{what}. Take it out of dropped.", key="dropped")
        if self.strict and (others := [name for name in self.columns if name in low and name not in self.dropped]):
            wanted = ", ".join(name for name in self.columns if name in low)
            what = f"{', '.join(map(repr, others))} var{'ies' if len(others) == 1 else 'y'} by no more than {self.threshold:g}"
            raise DataError(f"{what}. Write dropped: [{wanted}], leave them out of columns, or take strict: false.", key="dropped")
        return rows.drop(list(self.dropped))
