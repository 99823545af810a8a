"""Whole numbers in the place of categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.stage import Context, Outcome
from pipeline.stages.features._counted import CategoryCounts
from pipeline.tables.part import Part
from pipeline.tables.table import Table

MOST_DIMENSIONS = 600


class Categorify(CategoryCounts, name="categorify", version=1):
    """Replace categories by codes, Int32 from 0 in the order of the values' text; a value not learned, or missing, is missing.

    With `rare: bucket` values of fewer than `min_count` rows, and those that were not learned, share a code of their own, the last one.
    The table NAME.fitted says which code means what: column, value, rows, code; the bucket's value is null. Numbers are ordered as text: 10
    comes before 9. NAME.embeddings says of each column how many codes it has, and how many dimensions are usual for an embedding of them,
    1.6 codes^0.56 and at most 600 (Howard & Gugger 2020, Information 11:108): column, codes, dimensions. There may be more categories than
    memory holds: NAME.fitted is then in several parts.

    Example: {use: categorify, from: filled, as: coded, columns: [state, purpose], fit_where: "split = 'train'"}
    """

    numbered: ClassVar[str] = "code"

    min_count: int = Field(1, ge=1, description="Values with fewer rows to learn from are rare, and get no code of their own.")
    rare: Literal["missing", "bucket"] = Field("missing", description="What rare values, and those not learned, become.")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The codes, and beside them the sizes of embeddings."""
        outcome = super().run(tables, context)
        codes = outcome.tables["fitted"].named(context.name).map(_counted).gather()
        sizes = codes.map_parts(_embeddings, self.columns)
        return replace(outcome, tables={**outcome.tables, "embeddings": sizes})

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, value, rows and code, in that order."""
        counted = partial.group_by("column", "value").agg(pl.col("rows").sum())
        values = counted.filter(pl.col("rows") >= self.min_count)
        code = pl.col("value").rank("ordinal").over("column").cast(pl.Int32) - pl.lit(1, dtype=pl.Int32)
        coded = values.with_columns(code.alias("code"))
        if self.rare == "bucket":
            coded = pl.concat([coded, *(self._bucket(name, counted) for name in self.columns)])
        return coded.sort("column", "code")

    def _bucket(self, name: str, counted: pl.LazyFrame) -> pl.LazyFrame:
        """The rare values of a column in one row, whose code comes after all others; cuDF takes no sum of a group to 32 bits."""
        own, few = pl.col("column") == name, pl.col("rows") < self.min_count
        rows = pl.when(own & few).then(pl.col("rows")).otherwise(0).sum().alias("rows")
        code = pl.when(own & ~few).then(1).otherwise(0).cast(pl.Int32).sum().alias("code")
        return counted.select(rows, code).select(pl.lit(name).alias("column"), pl.lit(None, dtype=pl.String).alias("value"), "rows", "code")

    def totals(self) -> tuple[Sequence[str], Sequence[pl.Expr]]:
        """Rows of each column's rare values, and how many values are not."""
        few = pl.col("rows") < self.min_count
        return ("column",), (pl.when(few).then("rows").otherwise(0).sum().alias("rows"), (~few).cast(pl.Int64).sum().alias("values"))

    def of_values(self, sums: pl.LazyFrame, totals: pl.LazyFrame) -> pl.LazyFrame:
        """Values that are not rare; their codes are still to come."""
        return sums.filter(pl.col("rows") >= self.min_count).with_columns(pl.lit(None, dtype=pl.Int32).alias("code"))

    def beside(self, totals: pl.LazyFrame, found: pl.LazyFrame | None = None) -> pl.LazyFrame:
        """Each column's rare values in one row, whose code comes after all others, where they share one."""
        every = pl.LazyFrame({"column": self.columns if self.rare == "bucket" else []}, schema={"column": pl.String})
        rows, code = pl.col("rows").fill_null(0), pl.col("values").fill_null(0).cast(pl.Int32).alias("code")
        nothing = pl.lit(None, dtype=pl.String).alias("value")
        return every.join(totals, on="column", how="left").select("column", nothing, rows, code)

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with codes."""
        return rows.with_columns(_coded(name, fitted.filter(pl.col("column") == name)) for name in self.columns)


def _coded(name: str, learned: pl.DataFrame) -> pl.Expr:
    known, bucket = learned.filter(pl.col("value").is_not_null()), learned.filter(pl.col("value").is_null())["code"]
    rare = bucket.item() if len(bucket) else None
    code = pl.col(name).cast(pl.String).replace_strict(known["value"], known["code"], default=None, return_dtype=pl.Int32)
    if rare is None:
        return code
    return pl.when(pl.col(name).is_not_null()).then(code.fill_null(pl.lit(rare, dtype=pl.Int32))).otherwise(None).alias(name)


def _counted(fitted: pl.LazyFrame) -> pl.LazyFrame:
    return fitted.group_by("column").agg(pl.len().cast(pl.Int64).alias("codes"))


def _embeddings(counted: Part, columns: tuple[str, ...]) -> Part:
    """Column, codes and dimensions, from the codes that each part has."""
    codes = {name: int(counted.frame.filter(pl.col("column") == name)["codes"].sum()) for name in columns}
    rows = [(name, count, min(MOST_DIMENSIONS, max(1, round(1.6 * count**0.56)))) for name, count in codes.items()]
    return Part(pl.DataFrame(rows, {"column": pl.String, "codes": pl.Int64, "dimensions": pl.Int64}, orient="row"))
