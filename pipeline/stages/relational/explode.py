"""A row for each value of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal, cast

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, Context, Outcome, Rows, need_columns
from pipeline.tables.budget import row_bytes
from pipeline.tables.counts import Count
from pipeline.tables.foreseen import lengthened
from pipeline.tables.infinities import INFINITIES, counted, made_finite
from pipeline.tables.part import Schema
from pipeline.tables.stretches import for_more_rows
from pipeline.tables.table import Table


class Explode(Rows, name="explode", version=1):
    """A row for each value of a list, in the list's order, the other columns beside it. Several lists go together: they are as long each.

    A list that is empty or missing stays as one row without a value, or goes (`empty: drop`, as SQL's unnest has it). A GPU does neither
    that nor several lists.

    Example: {use: explode, from: baskets, as: items, columns: [item, price], empty: drop}
    """

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    columns: ColumnNames = Field(description="The columns of lists.")
    empty: Literal["keep", "drop"] = Field("keep", description="A row whose list is empty or missing: keep it, with null, or drop it.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and are lists."""
        need_columns(schema, self.columns, key="columns")
        for name in self.columns:
            if not isinstance(schema.columns[name], pl.List):
                raise StageError(f"column {name!r} is {schema.columns[name]}, and no list.", key="columns")

    def writes(self) -> frozenset[str]:
        """The columns of lists."""
        return frozenset(self.columns)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One map over the parts, smaller ones where so many rows come of them, as a sample of the lists says, that memory does not hold
        them."""
        (rows,) = (table.named(context.name) for table in tables.values())
        assert rows.schema is not None
        rows, size = lengthened(rows, self.columns[0], row_bytes(self._each(rows.schema)))
        found = super().run({"rows": for_more_rows(rows, size)}, context).tables[""]
        return Outcome({"": replace(found, size=size)})

    def _each(self, schema: Schema) -> Schema:
        """The columns of a row for each value."""
        lists = {name: cast(pl.List, schema.columns[name]) for name in self.columns}
        return Schema(pl.Schema({**schema.columns, **{name: cast(pl.DataType, of.inner) for name, of in lists.items()}}))

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows."""
        if self.empty == "drop":
            rows = rows.filter(pl.col(self.columns[0]).list.len() > 0)
        each = rows.explode(*self.columns, empty_as_null=True)
        dtypes = each.collect_schema()
        values = {name: made_finite(pl.col(name), dtypes[name]) for name in self.columns if dtypes[name].is_float()}
        return each.with_columns(counted(each, value).alias(name) for name, value in values.items())
