"""Fields of a structure become columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, Rows, need_columns
from pipeline.tables.counts import Count as Counted
from pipeline.tables.infinities import INFINITIES, counted, made_finite
from pipeline.tables.part import Schema


class Unnest(Rows, name="unnest", version=1):
    """The fields of structures (records within a column, as Parquet and JSON have them) as columns in their place; of a missing one null.

    Example: {use: unnest, from: orders, as: flat, columns: address, separator: "_"}
    """

    counts: ClassVar[Mapping[str, Counted]] = INFINITIES

    columns: ColumnNames = Field(description="The columns of structures.")
    separator: str | None = Field(None, description="Name the new columns COLUMN, this, FIELD; FIELD alone where it is not given.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, are structures, and no two columns get one name."""
        need_columns(schema, self.columns, key="columns")
        for name in self.columns:
            if not isinstance(schema.columns[name], pl.Struct):
                raise StageError(f"column {name!r} is {schema.columns[name]}, and no structure.", key="columns")
        names = Counter(name for name, _, _ in self._fields(schema.columns))
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise StageError(f"the result would have two columns {twice[0]!r}. Give a separator, or rename one of them.", key="separator")

    def writes(self) -> None:
        """Any column: fields are named like columns that were."""
        return

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the fields."""
        found = rows.select(expr.alias(name) for name, expr, _ in self._fields(rows.collect_schema()))
        floats = {name: dtype for name, _, dtype in self._fields(rows.collect_schema()) if dtype.is_float()}
        return found.with_columns(counted(found, made_finite(pl.col(name), dtype)).alias(name) for name, dtype in floats.items())

    def _fields(self, schema: pl.Schema) -> Iterator[tuple[str, pl.Expr, pl.DataType]]:
        """Name, expression and type of every column of the result."""
        for name, dtype in schema.items():
            if name in self.columns and isinstance(dtype, pl.Struct):
                before = "" if self.separator is None else f"{name}{self.separator}"
                for field in dtype.fields:
                    yield f"{before}{field.name}", pl.col(name).struct.field(field.name), pl.Schema({"x": field.dtype})["x"]
            else:
                yield name, pl.col(name), dtype
