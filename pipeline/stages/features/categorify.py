"""Whole numbers in the place of categories."""

from __future__ import annotations

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, FittedRows, need_columns
from pipeline.tables.part import Schema


class Categorify(FittedRows, name="categorify", version=1):
    """Replace categories by codes, Int32 from 0 in the order of the values' text; a value not learned, or missing, is missing.

    The table NAME.fitted says which code means what: column, value, rows, code. Numbers are ordered as text: 10 comes before 9.

    Example: {use: categorify, from: filled, as: coded, columns: [state, purpose], fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to encode: text, integers or booleans.")
    min_count: int = Field(1, ge=1, description="Values with fewer rows to learn from get no code.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold categories."""
        need_columns(schema, self.columns, key="columns")
        for name in self.columns:
            dtype = schema.columns[name]
            if not (dtype.is_integer() or dtype in {pl.String, pl.Boolean}):
                raise StageError(
                    f"column {name!r} is {dtype}, and categories are text, integers or booleans. Leave it a number, or cast it.",
                    key="columns",
                )
        if self.fit_where is not None:
            self.fit_condition(schema.columns)

    def writes(self) -> frozenset[str]:
        """The columns encoded."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Every column's values with their counts."""
        texts = rows.select(pl.col(self.columns).cast(pl.String)).unpivot(variable_name="column", value_name="value").drop_nulls()
        return texts.group_by("column", "value").agg(pl.len().cast(pl.Int64).alias("rows"))

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, value, rows and code, in that order."""
        values = partial.group_by("column", "value").agg(pl.col("rows").sum()).filter(pl.col("rows") >= self.min_count)
        code = pl.col("value").rank("ordinal").over("column").cast(pl.Int32) - pl.lit(1, dtype=pl.Int32)
        return values.with_columns(code.alias("code")).sort("column", "code")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with codes."""
        return rows.with_columns(_coded(name, fitted.filter(pl.col("column") == name)) for name in self.columns)


def _coded(name: str, learned: pl.DataFrame) -> pl.Expr:
    return pl.col(name).cast(pl.String).replace_strict(learned["value"], learned["code"], default=None, return_dtype=pl.Int32)
