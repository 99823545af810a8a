"""One row a key, or one of all rows: sums, means, counts and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar

import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.errors import DataError, StageError, under
from pipeline.sql.expression import Value, check_condition
from pipeline.stage import ColumnName, Context, Keyed, Outcome, need_keys
from pipeline.stages.relational._aggregates.function import Columns, Place
from pipeline.stages.relational._computed import Computed, written_out
from pipeline.stages.relational._sums import bounded, may_outgrow
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted, made_finite
from pipeline.tables.names import one_or_more
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class Aggregate(Keyed, name="aggregate", version=5):
    """One row a key, with sums, means, counts and the like of its rows; nulls do not count. The result is in the order of its keys.

    `by: []` makes one row of all rows, also where there are none. `having` keeps some of the results.

    `function(column)` is the short way to write one; second parameters follow, as in quantile(x, 0.9), corr(x, y), weighted_mean(x, w),
    arg_max(name, price), list(x, day). count counts values, size rows, n_unique distinct values: all Int64. A sum of no values is 0, a list
    of none is empty, any other function of none is null; std, var and covar are those of a sample (n - 1), corr is Pearson's. The last
    digits of a float's sum or mean depend on the order of addition: round them in a derive where that matters. Sums of integers are Int64
    (UInt64 of UInt64) and one that is beyond that fails the run; sums of decimals have their scale and 38 digits; means, also of what sums
    to more, are Float64.

    quantile is exact, of floats: `interpolation` says what it is between two values (linear, where not given). approx_quantile is the same
    under the name that other engines have for an approximate one: all values of a key come to one worker for either, that column alone.
    mode is the most frequent value, the least of several. arg_min(name, price) is the name where the price is least: `first` by another
    name. any and all are of conditions. list has the values in order, or in that of `order_by`. histogram with n `edges` is a list of n + 1
    counts: below the first edge, from each edge to the next, from the last on.

    Example: {use: aggregate, from: valid, as: per_loan, by: loan_id, having: rows > 1, compute: {rows: size(), balance_mean: mean(balance),
    balance_last: {function: last, of: balance, order_by: month}, late: {function: count, of: month, where: days_late > 30}}}
    """

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    by: Annotated[tuple[ColumnName, ...], BeforeValidator(one_or_more)] = Field(
        description="The columns that make a key; [] where all rows make one."
    )
    compute: dict[ColumnName, Annotated[Computed, BeforeValidator(written_out)]] = Field(min_length=1, description="Name: what to compute.")
    having: str | None = Field(None, min_length=1, description="SQL condition on the results: those that are kept.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Keys exist and are no floats, names are new, expressions fit."""
        need_keys(schema, self.by, key="by")
        if clash := sorted(set(self.by) & set(self.compute)):
            raise StageError(f"compute names {clash[0]!r}, which is a key. Give the result another name.", key="compute")
        self._valued(schema.columns.to_frame().lazy())

    def keys(self) -> Sequence[str]:
        """The columns that make a key."""
        return self.by

    def writes(self) -> frozenset[str]:
        """The columns computed; some may be named like columns that were."""
        return frozenset(self.compute)

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """One row a key of this part, with sums and counts in place of means; the values of all rows where a function cannot be split."""
        valued = self._valued(rows)
        return self._grouped(valued, merging=False) if self._splits else valued

    def final(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from what the parts gave."""
        return self._finished(self._grouped(rows, merging=self._splits))

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from all rows of its keys."""
        return self._finished(self._grouped(self._valued(rows), merging=False))

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """As any stage with keys; then a look at sums that can outgrow 64 bits (they are never null otherwise), lists, and `having`."""
        (rows,) = tables.values()
        assert rows.schema is not None
        found = super().run(tables, context).tables[""]
        sums = {name: computed for name, computed in self.compute.items() if computed.function == "sum"}
        wide = [name for name, computed in sums.items() if may_outgrow(computed.operand(rows.schema.columns)[1])]
        if wide or any(computed.by_name.settles for computed in self.compute.values()):
            found = found.map_parts(self._settled, wide, writes=self.writes())
        return Outcome({"": found if self.having is None else found.map(self._kept, writes=frozenset())})

    def _settled(self, part: Part, sums: list[str]) -> Part:
        """The part with its lists, once no sum outgrew its type; raises DataError with the key of the first that did."""
        for name in sums:
            if part.frame[name].null_count():
                row = part.frame.filter(pl.col(name).is_null()).row(0, named=True)
                place = ", ".join(f"{column} {row[column]!r}" for column in self.by) or "all rows"
                raise DataError(
                    f"the sum is beyond {part.frame.schema[name]} for {place}. "
                    f"Add up floats, as in sum(cast({self.compute[name].of} as double)), or take the mean.",
                    key=f"compute.{name}",
                )
        made = [computed.by_name.settled(part.frame, name, computed) for name, computed in self.compute.items() if computed.by_name.settles]
        return Part(part.frame.with_columns(made).select(*self.by, *self.compute))

    def _kept(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        assert self.having is not None
        with under("having"):
            condition = check_condition(self.having, rows.collect_schema())
        return rows.filter(counted(rows, condition))

    @property
    def _splits(self) -> bool:
        return all(computed.by_name.splits for computed in self.compute.values())

    def _valued(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The keys, and the values that each result reads."""
        values = {f"{part}:{name}": value for name, part, value in self._values(rows.collect_schema())}
        return rows.with_columns(counted(rows, value).alias(column) for column, value in values.items()).select(*self.by, *values)

    def _values(self, schema: pl.Schema) -> Iterable[tuple[str, str, Value]]:
        """For results that share none of another one: name, part and values."""
        for name, computed in self.compute.items():
            with under(f"compute.{name}"):
                values = dict(computed.values(schema))
            if self._owners[name] == name:
                yield from ((name, part, value) for part, value in values.items())

    @property
    def _owners(self) -> dict[str, str]:
        """The result whose values each one reads: the first of those that share them, or its own."""
        first: dict[tuple[object, ...], str] = {}
        keys = {name: (*computed.shared, name if computed.by_name.alone else "") for name, computed in self.compute.items()}
        return {name: first.setdefault(key, name) for name, key in keys.items()}

    def _grouped(self, rows: pl.LazyFrame, *, merging: bool) -> pl.LazyFrame:
        columns, owners = rows.collect_schema(), self._owners
        rounds: list[list[pl.Expr]] = []
        steps: list[pl.Expr] = []
        for name, computed in self.compute.items():
            place = Place(name, owners[name], self.by, columns, merging)
            for number, made in enumerate(computed.by_name.before(place, computed)):
                rounds += [[]] * (number == len(rounds))
                rounds[number] = rounds[number] + _named(made, name)
            steps += _named(computed.by_name.steps(place, computed), name)
        for made_before in rounds:
            rows = rows.with_columns(made_before)
        grouped = rows.group_by(*self.by).agg(steps) if self.by else rows.select(steps)
        schema = grouped.collect_schema()
        bounds = [bound for name in self.compute if f"about:{name}" in schema for bound in bounded(name, schema)]
        return grouped.with_columns(bounds) if bounds else grouped

    def _finished(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        columns = rows.collect_schema()
        finished = [computed.by_name.finished(name, computed, columns) for name, computed in self.compute.items()]
        made = {column: expr for each in finished for column, expr in each.items()}
        results = rows.select(*self.by, *(expr.alias(column) for column, expr in made.items()))
        dtypes = results.collect_schema()
        values = {column: made_finite(pl.col(column), dtypes[column]) for column in made if dtypes[column].is_float()}
        results = results.with_columns(counted(results, value).alias(column) for column, value in values.items())
        return results.sort(*self.by, nulls_last=True) if self.by else results


def _named(columns: Columns, name: str) -> list[pl.Expr]:
    return [expr.alias(f"{part}:{name}") for part, expr in columns.items()]
