"""Sessions: rows of a group that follow one another closely."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, Stage, need_columns, need_keys
from pipeline.stages.relational._ordered.groups import AT, START, By, grouped, in_order
from pipeline.stages.relational._ordered.spans import need_time, span_of
from pipeline.tables.names import Order
from pipeline.tables.part import ROW, Schema, hidden
from pipeline.tables.table import Table


class Sessionize(Stage, name="sessionize", version=1):
    """Number the sessions of each group, from 1 on: a new one begins with the first row after more than `gap` without a row.

    A row without a time is in no session. The result is in the order of its groups, then of time, and rows of one time follow by all
    other columns; over several workers each part is, and the whole only with a sort. Aggregate by the group's columns and the session for
    what is in each.

    Example: {use: sessionize, from: clicks, as: visits, by: user, time: time, gap: 30m}
    """

    by: By = Field((), description="The columns that make a group, such as a user; all rows are one where there are none.")
    time: ColumnName = Field(description="Column of dates, timestamps, or whole numbers.")
    gap: str = Field(description="The longest time between two rows of a session: 30m, 1d, or a whole number for a column of numbers.")
    column: ColumnName = Field("session", description="The name of the new column, Int64.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Columns exist, the gap is one of the column's, and the new column's name is new."""
        need_keys(schema, self.by, key="by")
        need_columns(schema, [self.time], key="time")
        need_time(self.time, schema.columns[self.time], key="time")
        span_of(self.gap, self.time, schema.columns[self.time], key="gap")
        if self.column in {*schema.columns, ROW}:
            raise StageError(f"there is a column {self.column!r} already. Give the session another name.", key="column")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """An exchange by the keys, and one query over sorted rows."""
        (rows,) = tables.values()
        return Outcome({"": grouped(rows.named(context.name), self.by).map(self._numbered, writes=frozenset({self.column}), whole="order")})

    def _numbered(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows in order, with the number of their session."""
        schema, own = rows.collect_schema(), hidden(rows)
        ordered = in_order(rows, self.by, Order((self.time,)))
        place = pl.col(self.time).to_physical().cast(pl.Int64)
        apart = place - place.shift(1)
        # A distance beyond Int64 wraps round to a negative one.
        is_new = (pl.col(AT) == pl.col(START)) | (apart > span_of(self.gap, self.time, schema[self.time], key="gap")) | (apart < 0)
        ordered = ordered.with_columns(is_new.fill_null(value=False).cast(pl.Int64).cum_sum().alias(self.column))
        number = pl.col(self.column) - pl.col(self.column).gather(pl.col(START)) + 1
        session = pl.when(pl.col(self.time).is_not_null()).then(number).otherwise(None).alias(self.column)
        return ordered.with_columns(session).select(*(name for name in schema.names() if name not in own), self.column, *own)
