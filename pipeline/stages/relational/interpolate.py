"""Missing values from the known ones around them, along an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Stage, need_columns, need_keys, need_numeric
from pipeline.stages.relational._ordered.between import SIDES, around, line, seen
from pipeline.stages.relational._ordered.groups import AT, TIES, By, Ties, grouped, in_order, placed_in, without_ties
from pipeline.stages.relational._ordered.in_parts import each_part, in_parts
from pipeline.stages.relational._ordered.known import PLACE, Carry, Series, put_in
from pipeline.stages.relational._ordered.spans import as_number, need_time, span_of
from pipeline.tables.budget import row_bytes
from pipeline.tables.names import Order
from pipeline.tables.pairs import for_two, large_keys
from pipeline.tables.part import Schema, hidden
from pipeline.tables.table import Table

Method = Literal["linear", "forward", "backward", "nearest"]
ASIDE = 8
"""Whole numbers that stand beside each row meanwhile, and for each column to fill: values known around it, and where they are."""


class Interpolate(Stage, name="interpolate", version=1):
    """Fill missing values from the known ones before and after them, within a group and along `order`; other values stay.

    linear takes the line between the two, in proportion to `order` (time), or to row numbers with `spacing: rows`; it gives Float64 and
    fills nothing before the first known value or after the last. forward repeats the value before, backward the one after, nearest that of
    the nearer one (of two equally near the one before), each of any type. With `limit` forward, backward and nearest go so many rows from
    the known value, and linear fills no gap of more rows; with `max_span` they go so far along `order`, and linear fills no gap between
    known values farther apart. Rows without an order are left as they are, and fill nothing. The result is in the order of its groups,
    then in `order`, and rows that tie follow by all other columns; over several workers each part is, and the whole only with a sort.
    Beyond memory groups larger than a task may hold lie in several parts, one behind the other.

    Example: {use: interpolate, from: flow, as: filled, by: sensor, order: time, columns: {speed: linear, status: forward}, max_span: 2h}
    """

    by: By = Field((), description="The columns that make a group; all rows are one where there are none.")
    order: ColumnName = Field(description="Column of times or whole numbers that orders a group's rows.")
    columns: ColumnNames | dict[ColumnName, Method] = Field(description="Columns to fill, or a mapping of columns to methods.")
    method: Method | None = Field(None, description="The method for a list of columns: linear where it is not given.")
    spacing: Literal["order", "rows"] = Field("order", description="linear, nearest: how far rows are apart: by their order, or one each.")
    limit: int | None = Field(None, ge=1, description="The most rows to go, or of a gap.")
    max_span: str | None = Field(None, description="The farthest to go along `order`, or of a gap: 2h, 1d, or a whole number.")
    indicator: bool = Field(False, description="Add NAME_filled, Boolean: whether the value was put in.")
    ties: Ties = Field("columns", description=TIES)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if isinstance(self.columns, Mapping) and self.method is not None:
            raise ValueError("columns says how each column is filled: leave out method")
        return self

    @property
    def methods(self) -> dict[str, Method]:
        """How each column is filled."""
        if isinstance(self.columns, Mapping):
            return dict(self.columns)
        return dict.fromkeys(self.columns, self.method or "linear")

    def check_input(self, role: str, schema: Schema) -> None:
        """Columns exist, and can be filled so."""
        need_keys(schema, self.by, key="by")
        need_columns(schema, [self.order], key="order")
        need_columns(schema, self.methods, key="columns")
        need_time(self.order, schema.columns[self.order], key="order")
        need_numeric(schema, [name for name, method in self.methods.items() if method == "linear"], key="columns")
        if self.max_span is not None:
            span_of(self.max_span, self.order, schema.columns[self.order], key="max_span")
        if clash := sorted({*self.by, self.order} & set(self.methods)):
            raise StageError(f"column {clash[0]!r} says where rows stand, and cannot be filled by it", key="columns")
        if self.indicator and (clash := sorted({f"{name}_filled" for name in self.methods} & set(schema.columns))):
            raise StageError(f"there is a column {clash[0]!r} already. Rename it before, or leave out indicator.", key="indicator")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """An exchange by the keys, and one query over sorted rows; where a group is large all rows lie in order, in several parts."""
        (rows,) = tables.values()
        rows = rows.named(context.name)
        if rows.is_beyond:
            rows = for_two(rows)
            if self._is_large(rows):
                return Outcome({"": self._in_parts(rows)})
        writes = frozenset(self.methods) | {f"{name}_filled" for name in self.methods if self.indicator}
        return Outcome({"": grouped(rows, self.by).map(self._whole, writes=writes, whole="order")})

    def _is_large(self, rows: Table) -> bool:
        """Whether a group of rows beyond memory is more than a task may hold. Waits for keys to be counted."""
        assert rows.schema is not None
        return not self.by or large_keys(rows, self.by, row_bytes(rows.schema) + 8 * ASIDE * (1 + len(self.methods))).height > 0

    def _in_parts(self, rows: Table) -> Table:
        """The rows filled, all in one order. Waits for them to be put in it."""
        series = Series(self.by, self.order, tuple(self.methods))
        ordered, edges = in_parts(rows, self.by, Order((self.order,)), self.ties, series.edges)
        return each_part(ordered, self._part, rows.session.submit(series.carries, edges, stage=rows.stage))

    def _whole(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of whole groups, in order and filled."""
        return self._filled(in_order(rows, self.by, Order((self.order,)), self.ties), rows, Carry())

    def _part(self, rows: pl.LazyFrame, carries: Sequence[Carry], number: int) -> pl.LazyFrame:
        """A part of rows in order, filled."""
        carry, placed = carries[number], placed_in(rows, self.by)
        if self.ties == "refuse":
            placed = without_ties(placed, self.by, Order((self.order,)), first=carry.tied)
        return self._filled(placed, rows, carry)

    def _filled(self, placed: pl.LazyFrame, rows: pl.LazyFrame, carry: Carry) -> pl.LazyFrame:
        """The rows in order without gaps in those columns."""
        schema, own = rows.collect_schema(), hidden(rows)
        placed = placed.with_columns(as_number(self.order).alias(PLACE))
        known = pl.col(PLACE).is_not_null()
        values = {name: f"__known:{name}__" for name in self.methods}
        placed = placed.with_columns(pl.when(known).then(pl.col(name)).otherwise(None).alias(value) for name, value in values.items())
        placed = placed.with_columns(expr for value in values.values() for expr in around(value, PLACE, AT))
        placed = placed.with_columns(put_in(carry, values, PLACE, AT))
        limit = None if self.max_span is None else span_of(self.max_span, self.order, schema[self.order], key="max_span")
        filled = {name: self._value(method, values[name], limit) for name, method in self.methods.items()}
        missing = {name: pl.col(name).is_null() & known for name in filled}
        given = []
        for name, method in self.methods.items():
            kept = pl.col(name).cast(pl.Float64) if method == "linear" else pl.col(name)
            given.append(pl.when(missing[name]).then(filled[name]).otherwise(kept).alias(name))
        marks = [(missing[name] & filled[name].is_not_null()).alias(f"{name}_filled") for name in filled if self.indicator]
        names = [name for name in schema.names() if name not in own]
        return placed.with_columns(*given, *marks).select(*names, *(f"{name}_filled" for name in filled if self.indicator), *own)

    def _value(self, method: Method, value: str, span: int | None) -> pl.Expr:
        """What a missing value becomes; null where nothing is near enough."""
        before, after = self._near(value, "before", span), self._near(value, "after", span)
        earlier, later = (pl.col(seen(value, side)) for side in SIDES)
        if method == "forward":
            return pl.when(before).then(earlier).otherwise(None)
        if method == "backward":
            return pl.when(after).then(later).otherwise(None)
        place = PLACE if self.spacing == "order" else AT
        first, last = (pl.col(seen(f"{place}:{value}", side)) for side in SIDES)
        if method == "linear":
            return pl.when(self._narrow(value, span)).then(line(value, place)).otherwise(None)
        # A distance beyond Int64 wraps round to a negative one, and is farther than any other.
        back, ahead = pl.col(place) - first, last - pl.col(place)
        nearer = after & (~before | ((ahead >= 0) & ((back < 0) | (ahead < back))))
        return pl.when(nearer).then(later).otherwise(pl.when(before).then(earlier).otherwise(None))

    def _near(self, value: str, side: str, span: int | None) -> pl.Expr:
        """Whether the known value to that side is there, within the limit and the span."""
        sign = 1 if side == "before" else -1
        at, place = (pl.col(seen(f"{name}:{value}", side)) for name in (AT, PLACE))
        found = at.is_not_null()
        if self.limit is not None:
            found &= (pl.col(AT) - at) * sign <= self.limit
        if span is not None:
            apart = (pl.col(PLACE) - place) * sign
            found &= (apart >= 0) & (apart <= span)
        return found.fill_null(value=False)

    def _narrow(self, value: str, span: int | None) -> pl.Expr:
        """Whether the gap that a row is in has known values on both sides, and is no longer than the limit and the span."""
        rows, apart = (pl.col(seen(f"{name}:{value}", "after")) - pl.col(seen(f"{name}:{value}", "before")) for name in (AT, PLACE))
        found = rows.is_not_null()
        if self.limit is not None:
            found &= rows <= self.limit + 1
        if span is not None:
            found &= (apart >= 0) & (apart <= span)
        return found.fill_null(value=False)
