"""New columns from SQL expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError, under
from pipeline.sql.expression import Sql, Value, value_of
from pipeline.stage import ColumnName, Rows
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.part import ROW, Schema


class Derive(Rows, name="derive", version=4):
    """Add columns, or replace some, by SQL expressions; a later one sees the earlier ones. NaN and infinities become null.

    Example: {use: derive, from: loans, as: ratios, columns: {ratio: balance / amount, is_high: "case when ratio > 0.8 then 1 else 0 end"}}
    """

    keeps_rows_apart: ClassVar[bool] = True

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    columns: dict[ColumnName, Sql] = Field(
        min_length=1, description="Name: SQL expression of one row, worked off from the first to the last."
    )

    def check_input(self, role: str, schema: Schema) -> None:
        """Every expression fits the columns before it; ExpressionError, with the column's name, where one does not."""
        if ROW in self.columns:
            raise StageError(f"the name {ROW!r} is used by this program", key="columns")
        self._values(schema.columns)

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """What is wanted and not derived, and the columns that expressions find there before one of their name is derived."""
        ((role, schema),) = schemas.items()
        read, derived = set[str](), set[str]()
        for name, value in self._values(schema.columns).items():
            read |= {*value.roots} - derived
            derived.add(name)
        return {role: (wanted - derived) | read}

    def writes(self) -> frozenset[str]:
        """The columns derived."""
        return frozenset(self.columns)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the columns, one after another."""
        for name, value in self._values(rows.collect_schema()).items():
            rows = rows.with_columns(counted(rows, value).alias(name))
        return rows

    def _values(self, schema: pl.Schema) -> dict[str, Value]:
        known, found = pl.Schema(schema), {}
        for name, text in self.columns.items():
            with under(f"columns.{name}"):
                found[name] = value_of(text, known)
            known[name] = found[name].dtype
        return found
