"""The first rows of each group in an order."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.stage import Context, Outcome, Stage, need_columns, need_keys
from pipeline.stages.relational._ordered.groups import AT, START, By, grouped, in_order, is_other
from pipeline.stages.relational._ordered.near import is_near
from pipeline.stages.relational._window.functions import Windowed
from pipeline.stages.relational.window import Window
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.infinities import on_a_cpu
from pipeline.tables.names import Order
from pipeline.tables.part import Schema, hidden
from pipeline.tables.table import Table

PLACE = "__place__"


class TopN(Stage, name="top_n", version=1):
    """Keep the first `n` rows of each group in an order; rows that tie in it follow by all other columns, however they came.

    `with_ties` also keeps the rows that tie with the last one kept, as SQL's FETCH FIRST ... WITH TIES does. A group of fewer rows keeps
    all. The rows come out in the order of their groups, then in `order`; over several workers each part is, and the whole only with a sort.
    A missing key is a group of its own; missing values are last.

    Example: {use: top_n, from: sales, as: best, by: store, n: 3, order: [-sold, product]}
    """

    by: By = Field((), description="The columns that make a group; all rows are one where there are none.")
    n: int = Field(ge=1, description="How many rows of each group to keep.")
    order: Order = Field(description="Which rows come first: columns, '-' means from high to low.")
    with_ties: bool = Field(False, description="Keep rows that tie in `order` with the last one, too.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and no key is a float."""
        need_keys(schema, self.by, key="by")
        need_columns(schema, self.order.names, key="order")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The first rows of each part, where rows are moved; then those of whole groups. Of very many all rows are put in order."""
        (rows,) = tables.values()
        if self._are_many(rows):
            placed = self._placed.run(tables, context).tables[""]
            return Outcome({"": placed.map(self._placed_first, writes=frozenset())})
        rows = rows.named(context.name).map(self._near, writes=frozenset())
        if len(rows.blocks) > 1 and (context.session.workers > 1 or not self.by):
            rows = rows.map(self._first, writes=frozenset(), whole="order")
        return Outcome({"": grouped(rows, self.by).map(self._first, writes=frozenset(), whole="order")})

    def _are_many(self, rows: Table) -> bool:
        """Whether the first rows of all parts together are more than may be in memory."""
        if self.by or not rows.is_beyond or rows.schema is None or rows.size is None or rows.session.budget is None:
            return False
        return not rows.session.budget.holds(Size(min(rows.size.rows, self.n * len(rows.blocks)), row_bytes(rows.schema)))

    @property
    def _placed(self) -> Window:
        """What gives each row its place in the order of all."""
        return Window(order=self.order, compute={PLACE: Windowed(function="rank" if self.with_ties else "row_number")})

    def _placed_first(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.filter(pl.col(PLACE) <= self.n).drop(PLACE)

    def _near(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows that may be among the first of their group, by the first column of the order alone: to sort few rows costs little.

        All rows on a GPU, where there is no top_k of groups; and where that column is no number or time.
        """
        schema, column, descending = rows.collect_schema(), self.order.names[0], self.order.descending[0]
        dtype = schema[column]
        known = dtype.is_integer() or dtype.is_float() or dtype.is_temporal()
        if on_a_cpu() is None or not self.by or not known:
            return rows
        return rows.filter(is_near(self.by, column, self.n, descending=descending))

    def _first(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The first rows of each group; an array's rows tie last."""
        names = [name for name in rows.collect_schema().names() if name not in hidden(rows)]
        ordered, first = in_order(rows, self.by, self.order), pl.col(AT)
        if self.with_ties:
            other = is_other(self.order.names) | (pl.col(AT) == pl.col(START))
            first = pl.when(other).then(pl.col(AT)).otherwise(0).cum_max()
        return ordered.filter(first - pl.col(START) < self.n).select(*names, *hidden(rows))
