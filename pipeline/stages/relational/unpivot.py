"""Columns become rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Rows, need_columns
from pipeline.tables.budget import TEXT_BYTES, Size, row_bytes
from pipeline.tables.narrowed import picked
from pipeline.tables.part import Schema, hidden
from pipeline.tables.stretches import for_more_rows
from pipeline.tables.table import Table

PLACE = "__place__"


class Unpivot(Rows, name="unpivot", version=1):
    """A row for each of some columns: its name and its value, beside the columns that stay. A row's values come in the order of `on`.

    Example: {use: unpivot, from: by_quarter, as: sales, on: [Q1, Q2, Q3, Q4], index: shop, variable_name: quarter, value_name: amount}
    """

    on: ColumnNames = Field(description="The columns that become rows, all of one type.")
    index: ColumnNames | None = Field(None, description="The columns that stay beside each value; all others where it is not given.")
    variable_name: ColumnName = Field("variable", description="The column that has the names.")
    value_name: ColumnName = Field("value", description="The column that has the values.")
    drop_nulls: bool = Field(False, description="Leave out rows whose value is missing.")

    @model_validator(mode="after")
    def _differ(self) -> Self:
        names = [*(self.index or ()), self.variable_name, self.value_name]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the result would have two columns {twice[0]!r}")
        if twice := sorted({name for name in self.on if self.on.count(name) > 1}):
            raise ValueError(f"on names {twice[0]!r} twice")
        return self

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, those of `on` have one type, and no two columns get one name."""
        need_columns(schema, self.on, key="on")
        need_columns(schema, self.index or (), key="index")
        first = self.on[0]
        for name in self.on[1:]:
            if schema.columns[name] != schema.columns[first]:
                types = f"{first!r} is {schema.columns[first]} and {name!r} is {schema.columns[name]}"
                raise StageError(f"{types}, and one column has one type. Cast one of them before.", key="on")
        if taken := {self.variable_name, self.value_name} & set(self.on):
            raise StageError(f"{sorted(taken)[0]!r} is one of the columns that become rows. Give another name.", key="value_name")
        for name, key in ((self.variable_name, "variable_name"), (self.value_name, "value_name")):
            if name in self._index(schema.columns.names()):
                raise StageError(f"the result would have two columns {name!r}. Give another name.", key=key)

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """The columns that become rows, and those that stay: what is wanted, where parameters do not name them."""
        ((role, schema),) = schemas.items()
        beside = self.index if self.index is not None else wanted.intersection(schema.columns)
        return {role: {*self.on, *beside}}

    def writes(self) -> frozenset[str]:
        """The two new columns, and those that go."""
        return frozenset({self.variable_name, self.value_name, *self.on})

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map over the parts, whose rows become several: to use them twice, they are held. Smaller ones where memory does not hold all
        that comes of them."""
        (rows,) = (table.named(context.name) for table in tables.values())
        assert rows.schema is not None
        kept = picked(rows.schema, [*self._index(rows.schema.columns.names()), self.on[0]])
        size = rows.size and Size(self.most_rows({"rows": rows.size.rows}, {}), TEXT_BYTES + row_bytes(kept))
        found = for_more_rows(rows, size).map(self.apply, writes=self.writes(), whole="groups")
        return Outcome({"": replace(found, size=size)})

    def most_rows(self, rows: Mapping[str, int], unique: Mapping[str, Collection[str]]) -> int:
        """One for each of the columns."""
        return sum(rows.values()) * len(self.on)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The values, row by row."""
        own = hidden(rows)
        index = [*self._index([name for name in rows.collect_schema().names() if name not in own]), *own]
        each = rows.with_row_index(PLACE).unpivot(
            on=list(self.on), index=[PLACE, *index], variable_name=self.variable_name, value_name=self.value_name
        )
        each = each.filter(pl.col(self.value_name).is_not_null()) if self.drop_nulls else each
        return each.sort(PLACE, maintain_order=True).drop(PLACE)

    def _index(self, names: list[str]) -> list[str]:
        return list(self.index) if self.index is not None else [name for name in names if name not in self.on]
