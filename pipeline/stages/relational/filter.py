"""Keep the rows for which a condition holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import under
from pipeline.sql.expression import Sql, Value, check_condition
from pipeline.stage import Rows
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.part import Schema


class Filter(Rows, name="filter", version=4):
    """Keep the rows for which an SQL condition is true; where it is false or unknown (null) they are dropped.

    Example: {use: filter, from: performance, as: valid, where: "balance >= 0 and month < 12"}
    """

    keeps_rows_apart: ClassVar[bool] = True

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    where: Sql = Field(min_length=1, description="SQL condition on the columns of one row.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The condition fits the columns; ExpressionError where it does not."""
        self._condition(schema.columns)

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """What is wanted, and the columns of the condition."""
        return {role: wanted.union(self._condition(schema.columns).roots) for role, schema in schemas.items()}

    def writes(self) -> frozenset[str]:
        """No column."""
        return frozenset()

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows for which the condition is true."""
        return rows.filter(counted(rows, self._condition(rows.collect_schema())))

    def _condition(self, schema: pl.Schema) -> Value:
        with under("where"):
            return check_condition(self.where, schema)
