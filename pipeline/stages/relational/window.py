"""Columns that look at other rows: those before and after, ranks, running and rolling figures, those of a whole group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, Stage, need_columns, need_keys
from pipeline.stages.relational._ordered.groups import TIES, By, Ties, grouped, in_order
from pipeline.stages.relational._ordered.spans import span_of
from pipeline.stages.relational._sums import SAFE_DIGITS
from pipeline.stages.relational._window.columns import Column, columns_of
from pipeline.stages.relational._window.following import Following
from pipeline.stages.relational._window.functions import ROLLING, Compute, Windowed, need_order
from pipeline.stages.relational._window.near import Near
from pipeline.stages.relational._window.of_groups import OfGroups
from pipeline.stages.relational._window.queries import computed
from pipeline.stages.relational._window.rolling import Rolled
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.names import Order
from pipeline.tables.pairs import for_two
from pipeline.tables.part import ROW, Schema, hidden
from pipeline.tables.session import Session
from pipeline.tables.table import Table


class Window(Stage, name="window", version=1):
    """Add columns (or replace some) that look at other rows of a group; no row is lost. `function(column, ...)` is short for one.

    Rows before and after: lag, lead, difference, pct_change (`lag(speed, 4)`: four rows before; one where nothing is said), null where the
    group has no such row. In the order: row_number, rank, dense_rank, percent_rank, ntile(4). Up to the row: cum_sum, _mean, _min, _max,
    _count, _std, _var, _median, _quantile. Over a window, of rows as in `rolling_mean(speed, 4)` or of a span of the order's column as in
    `rolling_mean(speed, 1h)`: rolling_sum and the like. It ends with its row, unless `closed` or `center` say otherwise; with a span it
    has all rows of that time, and a row without a time has none. At a group's ends it is shorter. Of the whole group, beside each row:
    sum, mean, min, max, count, size, n_unique, std, var, median, quantile, first, last, share (of the sum).

    Nulls do not count, but lag, lead, first and last give them. Types are those of aggregate: an integer beyond 64 bits fails the run,
    means and spreads are Float64. Rows that tie in `order` have one rank, and otherwise follow by all other columns, so that nothing
    depends on how they came. Of no values a sum over the whole group is 0, cum_sum and rolling_sum are null. The result is in the order
    of its groups, then in `order`; over several workers each part is, and the whole only with a sort; without an order, a group's rows
    stay as they came. A group is whole in one part; with no `by` all rows are, as in sort. Beyond memory groups larger
    than a task may hold lie in several parts, unless there is cum_median or cum_quantile.

    Example: {use: window, from: readings, as: features, by: sensor, order: time, compute: {before: lag(speed), total: cum_sum(count),
    day_before: "lag(speed, 96)", speed_1h: "rolling_mean(speed, 1h)", share_of_sensor: share(count), most_of_hour_before: {function:
    rolling_max, of: speed, span: 1h, closed: left}}}
    """

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    by: By = Field((), description="The columns that make a group; all rows are one where there are none.")
    order: Order | None = Field(None, description="Columns that order a group's rows, nulls last; '-' means from high to low.")
    compute: dict[ColumnName, Compute] = Field(min_length=1, description="Name: what to compute.")
    ties: Ties = Field("columns", description=TIES)

    def check_input(self, role: str, schema: Schema) -> None:
        """Keys and orders exist, functions have what they need, spans fit the order's column."""
        need_keys(schema, self.by, key="by")
        need_columns(schema, self._order.names, key="order")
        if clash := sorted({*self.by, ROW} & set(self.compute)):
            remedy = "which is a key" if clash[0] in self.by else "which is used by this program"
            raise StageError(f"compute names {clash[0]!r}, {remedy}. Give the result another name.", key="compute")
        for name, windowed in self.compute.items():
            need_order(name, windowed, self.order)
            if windowed.span is not None:
                (time,) = self._order
                span_of(windowed.span, time, schema.columns[time], key=f"compute.{name}.span")
        for column in columns_of(schema.columns, self.compute)[1]:
            if column.windowed.function == "rolling_sum" and isinstance(column.dtype, pl.Decimal) and column.dtype.precision > SAFE_DIGITS:
                problem = f"a rolling sum of {column.dtype} may have more than 38 digits on its way. Cast it to fewer digits, or to double."
                raise StageError(problem, key=f"compute.{column.name}")

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """What is wanted and computed from, keys and order; all columns where these order rows that tie."""
        ((role, schema),) = schemas.items()
        if self.order is not None and self.ties == "columns":
            return {role: schema.columns.names()}
        read = {name for value in columns_of(schema.columns, self.compute)[0].values() for name in value.roots}
        return {role: {*wanted.union(self.compute).intersection(schema.columns), *read, *self.by, *self._order.names}}

    @property
    def _order(self) -> Order:
        return self.order or Order(())

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """An exchange by the keys, one query over sorted rows, and a step on parts for windows that roll; large groups lie in parts."""
        (rows,) = tables.values()
        rows = rows.named(context.name)
        if not rows.is_beyond:
            return Outcome({"": self._together(rows, context)})
        return Outcome({"": self._beyond_in_order(rows, context) if self.order else self._beyond(rows, context)})

    def _together(self, rows: Table, context: Context) -> Table:
        """The rows with the results, a group's in one part."""
        assert rows.schema is not None
        columns, writes = columns_of(rows.schema.columns, self.compute)[1], frozenset(self.compute)
        found = grouped(rows, self.by).map(self._computed, writes=writes, whole="order")
        if rolling := tuple(column for column in columns if column.windowed.in_kernel):
            places = (*self.by, *self._order.names)
            found = found.map_parts(Rolled(rolling, self._order.names[0], places, context.session.backend), writes=writes)
        return self._told(found, rows.schema.columns)

    def _beyond(self, rows: Table, context: Context) -> Table:
        """The same without an order: rows of large groups stay in their parts."""
        schema = rows.schema
        assert schema is not None
        rows, large = OfGroups.of(self.by, self.compute, rows)
        if large is None:
            return self._together(rows, context)
        beside = self._told(large.table(rows, self._of_large(large, context, large.own(rows))), schema.columns)
        if not self.by:
            return beside
        others = replace(rows.map(large.others, writes=frozenset()), schema=schema)
        return replace(self._together(others, context).concat(beside), size=rows.size)

    def _beyond_in_order(self, rows: Table, context: Context) -> Table:
        """The same in an order: where a group is large all rows lie in it, in several parts."""
        schema = rows.schema
        assert schema is not None
        following = Following(self.by, self._order, self.ties, self.compute, schema.columns)
        near = Near(self.by, self._order, self.ties, self.compute, schema.columns, context.session.backend)
        two = self._in_two(schema.columns)
        if not (following.can(rows) or near.can(rows) or two) or not following.applies(rows := for_two(rows)):
            return self._together(rows, context)
        if near.can(rows):
            return self._told(near.table(rows), schema.columns)
        if following.can(rows):
            return self._told(following.table(rows, partial(self._of_whole, following.of_groups, context)), schema.columns)
        for window in two or ():
            assert rows.schema is not None
            planned = window.plan({"rows": rows.schema}, replace(context, session=Session()))[""]
            rows = replace(window.run({"rows": rows}, context).tables[""], schema=planned)
        return rows.map(_selected, self._names(schema.columns), writes=frozenset())

    def _told(self, rows: Table, schema: pl.Schema) -> Table:
        return rows.map(self._named, self._names(schema), columns_of(schema, self.compute)[1], writes=frozenset(self.compute))

    def _names(self, schema: pl.Schema) -> list[str]:
        return [*schema, *(name for name in self.compute if name not in schema)]

    def _in_two(self, schema: pl.Schema) -> tuple[Window, Window] | None:
        """What looks at rows near by after all else, where nothing that it reads is written before; None where it is not so."""
        near = {name: one for name, one in self.compute.items() if one.function in ROLLING}
        others = {name: one for name, one in self.compute.items() if name not in near}
        read = {root for value in columns_of(schema, near)[0].values() for root in value.roots}
        if not near or not others or set(others) & {*read, *self._order.names, *self.by}:
            return None
        first, second = (self.model_copy(update={"compute": compute}) for compute in (others, near))
        return first, second

    def _of_whole(self, compute: Mapping[str, Windowed], context: Context, rows: Table, keys: pl.DataFrame) -> Any:
        large = OfGroups(self.by, compute, keys)
        return self._of_large(large, context, large.values(rows))

    def _of_large(self, large: OfGroups, context: Context, rows: Table) -> Any:
        """What comes of groups as a whole, a row each: a part, or a future of one."""
        return Aggregate(by=self.by, compute=large.asked).run({"rows": rows}, context).tables[""].value()

    def _computed(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows in order, with the results of all functions but those that roll, and the values of these."""
        values, columns = columns_of(rows.collect_schema(), self.compute)
        ordered = in_order(rows, self.by, self._order, self.ties)
        valued = ordered.with_columns(counted(ordered, value).alias(name) for name, value in values.items())
        return computed(valued, [column for column in columns if not column.windowed.in_kernel], self._order.names)

    def _named(self, rows: pl.LazyFrame, names: list[str], columns: list[Column]) -> pl.LazyFrame:
        """The rows with the results under their names, and nothing else."""
        results = {column.name: pl.col(column.result).alias(column.name) for column in columns}
        return rows.select(*(results.get(name, pl.col(name)) for name in names), *hidden(rows))


def _selected(rows: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    return rows.select(names)
