"""Order rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl
from pydantic import Field

from pipeline.stage import Context, Outcome, Stage, need_columns
from pipeline.tables.names import Order
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Sort(Stage, name="sort", version=1):
    """Order the whole table by columns, missing values last; rows that tie keep the order they had. Its rows come into one part.

    Beyond memory they come into several parts, one behind the other.

    With `limit` each part gives its own first rows only, so that a large table's top few need little memory.

    Example: {use: sort, from: associations, as: top, by: [-neg_log_10_p_value, variant_id], limit: 20}
    """

    by: Order = Field(description="Columns to order by, the first one first; a minus before the name means from high to low.")
    limit: int | None = Field(None, ge=1, description="Keep that many rows.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Every column exists."""
        need_columns(schema, self.by.names, key="by")

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """What is wanted, and what it orders by."""
        return dict.fromkeys(schemas, wanted.union(self.by.names))

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The first rows of every part where there is a limit; then all of them in one part, in order."""
        (rows,) = tables.values()
        rows = rows.named(context.name)
        if self.limit is None:
            return Outcome({"": in_order(rows, self.by)})
        return Outcome({"": rows.map(self._first, writes=frozenset()).gather().map(self._first, writes=frozenset())})

    def _first(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return self.by.sort(rows).head(self.limit or 0)
