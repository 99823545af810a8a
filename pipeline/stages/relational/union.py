"""Rows of several tables below one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl

from pipeline.errors import StageError
from pipeline.stage import Context, Outcome, Stage
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Union(Stage, name="union", version=1):
    """Put the rows of several tables below one another; they have the same columns, in any order, of the same types.

    Example: {use: union, from: [loans_2024, loans_2025], as: loans}
    """

    roles: ClassVar[tuple[str, ...]] = ("*",)

    def plan(self, schemas: Mapping[str, Schema], context: Context) -> dict[str, Schema]:
        """The first table's schema. Raises StageError where another has other columns or types, or calls."""
        (first, *others) = schemas.items()
        for role, schema in schemas.items():
            if schema.arrays:
                raise StageError(f"{role!r} is a genotype table, and union joins plain tables only")
        for role, schema in others:
            _same_columns(first[0], first[1].columns, role, schema.columns)
        return super().plan(schemas, context)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The parts of all tables, the columns in the order of the first."""
        (first, *others) = (table.named(context.name) for table in tables.values())
        assert first.schema is not None
        names = first.schema.columns.names()
        return Outcome({"": first.concat(*(table.map(_in_order, names, writes=frozenset()) for table in others))})


def _in_order(rows: pl.LazyFrame, names: list[str]) -> pl.LazyFrame:
    return rows.select(names)


def _same_columns(left: str, first: pl.Schema, right: str, other: pl.Schema) -> None:
    """Raise StageError for the first column that one of two tables lacks or has in another type."""
    for name in [*first, *other]:
        for table, schema in ((left, first), (right, other)):
            if name not in schema:
                raise StageError(f"column {name!r} is missing in {table!r}. Give all tables the same columns (select, derive or rename).")
        if first[name] != other[name]:
            raise StageError(f"column {name!r} is {first[name]} in {left!r} and {other[name]} in {right!r}. Cast one of them before.")
