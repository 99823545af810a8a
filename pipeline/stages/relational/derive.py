"""New columns from SQL expressions."""

from __future__ import annotations

import polars as pl
from pydantic import Field

from pipeline.errors import StageError, under
from pipeline.sql.expression import check_value, finite
from pipeline.stage import ColumnName, Rows
from pipeline.tables.part import ROW, Schema


class Derive(Rows, name="derive", version=3):
    """Add columns, or replace some, by SQL expressions; a later one sees the earlier ones. NaN and infinities become null.

    Example: {use: derive, from: loans, as: ratios, columns: {ratio: balance / amount, is_high: "case when ratio > 0.8 then 1 else 0 end"}}
    """

    columns: dict[ColumnName, str] = Field(
        min_length=1, description="Name: SQL expression of one row, worked off from the first to the last."
    )

    def check_input(self, role: str, schema: Schema) -> None:
        """Every expression fits the columns before it; ExpressionError, with the column's name, where one does not."""
        if ROW in self.columns:
            raise StageError(f"the name {ROW!r} is used by this program", key="columns")
        self._expressions(schema.columns)

    def writes(self) -> frozenset[str]:
        """The columns derived."""
        return frozenset(self.columns)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the columns, one after another."""
        for expr in self._expressions(rows.collect_schema()):
            rows = rows.with_columns(expr)
        return rows

    def _expressions(self, schema: pl.Schema) -> list[pl.Expr]:
        known, found = pl.Schema(schema), []
        for name, text in self.columns.items():
            with under(f"columns.{name}"):
                expr, known[name] = check_value(text, known)
            found.append(finite(expr, known[name]).alias(name))
        return found
