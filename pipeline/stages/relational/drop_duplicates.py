"""One row of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.stage import ColumnNames, Context, Keyed, Outcome, need_columns, need_keys
from pipeline.stages.relational._ordered.groups import AT, is_other
from pipeline.tables.hot import ROWS, heavy, is_hot
from pipeline.tables.names import Order
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.sorting import put_in_order
from pipeline.tables.table import Table


class DropDuplicates(Keyed, name="drop_duplicates", version=1):
    """Keep one row of each key: the first by `order_by`, then by all other columns, so that it never depends on how the rows came.

    The rows come out in the order of their keys (over several workers within each part); a missing key is a key of its own, and
    stands last.

    Example: {use: drop_duplicates, from: visits, as: latest, columns: [sample_id], order_by: [-visit_date]}
    """

    columns: ColumnNames = Field(description="The columns that make a key.")
    order_by: Order | None = Field(None, description="Which row of a key is kept: the first in this order; '-' means from high to low.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and no key is a float."""
        need_keys(schema, self.columns, key="columns")
        need_columns(schema, self.order_by.names if self.order_by else (), key="order_by")

    def keys(self) -> Sequence[str]:
        """The columns that make a key."""
        return self.columns

    def writes(self) -> frozenset[str]:
        """No column: rows go, values stay."""
        return frozenset()

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """One row a key of this part."""
        return self.apply(rows)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """As any stage with keys; but beyond memory parts reduce no more than the keys of very many rows, which would all come to one part:

        to sort all rows first costs more than to cut them for the disk.
        """
        (rows,) = tables.values()
        if not rows.is_beyond:
            found = super().run(tables, context).tables[""]
            return Outcome({"": replace(found, unique=self.told_apart_by)})
        rows = rows.named(context.name)
        thinned = rows.map_parts(self._thinned, rows.buckets(), context.session.backend, writes=frozenset())
        found = thinned.exchange(self.columns).map(self.apply, writes=self.writes(), whole="groups")
        return Outcome({"": replace(found, unique=self.told_apart_by)})

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """The columns of which one row each is kept."""
        return self.columns

    def _thinned(self, part: Part, parts: int, backend: Backend) -> Part:
        """The part with one row of each key that has very many of its rows."""
        many = heavy(part, list(self.columns), parts)[1].drop(ROWS)
        if not many.height:
            return part
        of_many = is_hot(part.frame, many)
        one_each = collect(self.apply(part.frame.filter(of_many).lazy()), backend)
        return Part(pl.concat([part.frame.filter(~of_many), one_each]))

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The first row of each key in that order; an array's rows tie last."""
        own = hidden(rows)
        order = Order(self.columns).then(self.order_by or ())
        named = {*order.names, *own}
        others = [name for name in rows.collect_schema().names() if name not in named]
        ordered = put_in_order(rows, order, [*others, *own]).with_row_index(AT)
        return ordered.filter(is_other(self.columns)).drop(AT)
