"""Bring numbers into a range."""

from __future__ import annotations

import polars as pl
from pydantic import Field

from pipeline.stage import ColumnNames, Rows, need_numeric
from pipeline.tables.part import Schema


class Clamp(Rows, name="clamp", version=1):
    """Numbers below `low` become `low`, those above `high` become `high`; missing stays missing.

    Example: {use: clamp, from: visits, as: plausible, columns: [age], low: 0, high: 120}
    """

    columns: ColumnNames = Field(description="The columns to bring into the range: numbers.")
    low: float | None = Field(None, description="The least value; no bound where it is not given.")
    high: float | None = Field(None, description="The greatest value; no bound where it is not given.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold numbers."""
        need_numeric(schema, self.columns, key="columns")

    def writes(self) -> frozenset[str]:
        """The columns clampped."""
        return frozenset(self.columns)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the columns in the range, as Float64."""
        return rows.with_columns(pl.col(self.columns).cast(pl.Float64).clip(self.low, self.high))
