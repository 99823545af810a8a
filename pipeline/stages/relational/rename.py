"""Give columns other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Rows, need_columns
from pipeline.tables.part import Schema


class Rename(Rows, name="rename", version=1):
    """Give columns other names; their order stays.

    Example: {use: rename, from: sheet, as: people, columns: {id: sample_id, LDL: ldl}}
    """

    keeps_rows_apart: ClassVar[bool] = True

    columns: dict[ColumnName, ColumnName] = Field(min_length=1, description="Old name: new name. Two columns may swap their names.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Every old name exists, and no two columns end up with one name."""
        need_columns(schema, self.columns, key="columns")
        names = Counter(self.columns.get(name, name) for name in schema.columns.names())
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise StageError(f"two columns would be named {twice[0]!r}. Drop one of them before, or rename it too.", key="columns")

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """What is wanted by its old name, and all that gets a new one."""
        old = {new: name for name, new in self.columns.items()}
        return {role: {*(old.get(name, name) for name in wanted), *self.columns} for role in schemas}

    def writes(self) -> frozenset[str]:
        """Old and new names."""
        return frozenset(self.columns) | frozenset(self.columns.values())

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows under the new names."""
        return rows.rename(self.columns)
