"""Rows of several tables below one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import Context, Outcome, Stage
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Union(Stage, name="union", version=1):
    """Put the rows of several tables below one another. Columns go by their names, in any order, and have the same types.

    All tables have the same columns; or (`missing: nulls`) a column is null in the rows of those that lack it, and comes behind the others.

    Example: {use: union, from: [loans_2024, loans_2025], as: loans}
    """

    roles: ClassVar[tuple[str, ...]] = ("*",)

    missing: Literal["refused", "nulls"] = Field("refused", description="A column that some tables lack: refused, or null in their rows.")

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """The columns of all tables. Raises StageError where they differ in type, one has calls, or one is lacking that may not."""
        found: dict[str, tuple[str, pl.DataType]] = {}
        for role, schema in schemas.items():
            if schema.arrays:
                raise StageError(f"{role!r} is a genotype table, and union joins plain tables only")
            for name, dtype in schema.columns.items():
                first, other = found.setdefault(name, (role, dtype))
                if other != dtype:
                    raise StageError(f"column {name!r} is {other} in {first!r} and {dtype} in {role!r}. Cast one of them before.")
        for role, schema in schemas.items():
            lacking = [name for name in found if name not in schema.columns]
            if lacking and self.missing == "refused":
                remedy = "Give all tables the same columns (select, derive or rename), or take missing: nulls."
                raise StageError(f"column {lacking[0]!r} is missing in {role!r}. {remedy}")
        return super().plan(schemas, context)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The parts of all tables, the columns in the order in which they are first met."""
        columns: dict[str, pl.DataType] = {}
        for table in tables.values():
            assert table.schema is not None
            columns |= {name: dtype for name, dtype in table.schema.columns.items() if name not in columns}
        first, *others = (table.named(context.name).map(_in_order, columns, writes=frozenset()) for table in tables.values())
        return Outcome({"": first.concat(*others)})


def _in_order(rows: pl.LazyFrame, columns: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    has = rows.collect_schema()
    return rows.select(pl.col(name) if name in has else pl.lit(None, dtype=dtype).alias(name) for name, dtype in columns.items())
