"""Keep some columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, Rows, need_columns
from pipeline.tables.part import Schema, hidden


class Select(Rows, name="select", version=1):
    """Keep the columns that are named, in that order, or all but some.

    Example: {use: select, from: loans, as: keys, columns: [loan_id, amount]}
    """

    keeps_rows_apart: ClassVar[bool] = True

    columns: ColumnNames | None = Field(None, description="The columns to keep, in the order that the table shall have.")
    drop: ColumnNames | None = Field(None, description="The columns to leave out; give this or `columns`.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.columns is None) == (self.drop is None):
            raise ValueError("give either columns (to keep) or drop (to leave out)")
        if self.columns is not None and (twice := sorted({name for name in self.columns if self.columns.count(name) > 1})):
            raise ValueError(f"columns names {twice[0]!r} twice")
        return self

    def check_input(self, role: str, schema: Schema) -> None:
        """Every column exists, and one is left."""
        need_columns(schema, self.columns or self.drop or (), key="columns" if self.columns else "drop")
        if self.drop is not None and set(self.drop) >= set(schema.columns.names()):
            raise StageError("drop leaves no column", key="drop")

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """All that is named; beside what is left out those that are wanted, one at least."""
        if self.columns is not None:
            return dict.fromkeys(schemas, self.columns)
        ((role, schema),) = schemas.items()
        stays = [name for name in schema.columns if name not in (self.drop or ())]
        return {role: [*(self.drop or ()), *(name for name in stays if name in wanted or (not wanted and name == stays[0]))]}

    def writes(self) -> frozenset[str]:
        """None: what is known about the columns that stay, stays."""
        return frozenset()

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with those columns; a genotype table keeps its calls."""
        return rows.drop(*(self.drop or ())) if self.columns is None else rows.select(*self.columns, *hidden(rows))
