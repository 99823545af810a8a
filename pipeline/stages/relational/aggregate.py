"""One row a key, or one of all rows: sums, means, counts and the like."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.errors import StageError, under
from pipeline.sql.expression import Sql, check_condition
from pipeline.stage import ColumnName, Context, Keyed, Outcome, need_keys
from pipeline.stages.relational._aggregates.audited import Audit
from pipeline.stages.relational._aggregates.grouped import Grouped
from pipeline.stages.relational._aggregates.large import Large
from pipeline.stages.relational._aggregates.repeated import hardly_repeated, is_large
from pipeline.stages.relational._computed import Computed, written_out
from pipeline.tables.audits import GROUP_COUNTS
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.names import one_or_more
from pipeline.tables.part import Schema
from pipeline.tables.table import Table


class Aggregate(Keyed, name="aggregate", version=5):
    """One row a key, with sums, means, counts and the like of its rows; nulls do not count.

    The result is in the order of its keys; over several workers each part is, and the whole only with a sort.
    `by: []` makes one row of all rows, also where there are none. `having` keeps some of the results.

    `function(column)` is the short way to write one; second parameters follow, as in quantile(x, 0.9), corr(x, y), weighted_mean(x, w),
    arg_max(name, price), list(x, day). count counts values, size rows, n_unique distinct values: all Int64. A sum of no values is 0, a list
    of none is empty, any other function of none is null; std, var and covar are those of a sample (n - 1), corr is Pearson's. The last
    digits of a float's sum or mean depend on the order of addition: round them in a derive where that matters. Sums of integers are Int64
    (UInt64 of UInt64) and one that is beyond that fails the run; sums of decimals have their scale and 38 digits; means, also of what sums
    to more, are Float64.

    quantile is exact, of floats: `interpolation` says what it is between two values (linear, where not given). approx_quantile is the same
    under the name that other engines have for an approximate one: all values of a key come to one worker for either, that column alone,
    unless they are more than a task may hold.
    mode is the most frequent value, the least of several. arg_min(name, price) is the name where the price is least: `first` by another
    name. any and all are of conditions. list has the values in order, or in that of `order_by`. histogram with n `edges` is a list of n + 1
    counts: below the first edge, from each edge to the next, from the last on.

    Example: {use: aggregate, from: valid, as: per_loan, by: loan_id, having: rows > 1, compute: {rows: size(), balance_mean: mean(balance),
    balance_last: {function: last, of: balance, order_by: month}, late: {function: count, of: month, where: days_late > 30}}}
    """

    counts: ClassVar[Mapping[str, Count]] = {**INFINITIES, **GROUP_COUNTS}

    by: Annotated[tuple[ColumnName, ...], BeforeValidator(one_or_more)] = Field(
        description="The columns that make a key; [] where all rows make one."
    )
    compute: dict[ColumnName, Annotated[Computed, BeforeValidator(written_out)]] = Field(min_length=1, description="Name: what to compute.")
    having: Sql | None = Field(None, min_length=1, description="SQL condition on the results: those that are kept.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Keys exist and are no floats, names are new, expressions fit."""
        need_keys(schema, self.by, key="by")
        if clash := sorted(set(self.by) & set(self.compute)):
            raise StageError(f"compute names {clash[0]!r}, which is a key. Give the result another name.", key="compute")
        self._grouped.valued(schema.columns.to_frame().lazy())

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """The keys, and the columns that values are computed from, whatever is wanted: audits compute all of them again."""
        return {role: self._grouped.read(schema.columns) for role, schema in schemas.items()}

    def keys(self) -> Sequence[str]:
        """The columns that make a key."""
        return self.by

    def writes(self) -> frozenset[str]:
        """The columns computed; some may be named like columns that were."""
        return frozenset(self.compute)

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Sums and counts of this part's rows, where all functions split."""
        return self._grouped.partial(rows)

    def final(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from what the parts gave."""
        return self._grouped.final(rows)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from all rows of its keys."""
        return self._grouped.apply(rows)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """As any stage with keys, audited; then a look at sums that can outgrow 64 bits (never null otherwise), lists, and `having`."""
        (rows,) = tables.values()
        assert rows.schema is not None
        wide = self._grouped.wide_sums(rows.schema.columns)
        found = self._added_up(rows.named(context.name), context)
        if wide or self._grouped.settles:
            found = found.map_parts(self._grouped.settled, wide, writes=self.writes())
        found = found if self.having is None else found.map(self._kept, writes=frozenset())
        return Outcome({"": replace(found, unique=self.told_apart_by)})

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """The keys: each has one row."""
        return self.by

    def results(self, schema: pl.Schema) -> pl.Schema:
        """Names and types of the result, of rows of that schema."""
        return self._grouped.results(schema)

    def _added_up(self, rows: Table, context: Context) -> Table:
        rows, large = Large.of(self._grouped, rows)
        if large is None:
            return self._of_others(rows, context)
        found = large.table(rows)
        others = replace(rows.map(large.others, writes=frozenset()), schema=rows.schema)
        return self._of_others(others, context).concat(found) if self.by else found

    def _of_others(self, rows: Table, context: Context) -> Table:
        audit = Audit(self._grouped, f"{context.seed} {context.name}")
        if rows.is_beyond and self.by and hardly_repeated(rows, self.by):
            assert rows.schema is not None
            needed = rows.map(_picked, self._grouped.read(rows.schema.columns), writes=frozenset())
            return audit.over(needed.exchange(self.by), self.apply, self.writes())
        if rows.is_apart and len(rows.blocks) > 1:
            partial = audit.over(rows, self.partial, self.writes(), adds_up=True)
            return partial.exchange(self.by).map(self.final, writes=self.writes(), whole="groups")
        in_order = len(self.by) > 1 and is_large(rows) and hardly_repeated(rows, self.by)
        audit = replace(audit, grouped=replace(audit.grouped, in_order=in_order))
        return audit.over(rows.exchange(self.by), audit.grouped.apply, self.writes())

    @property
    def _grouped(self) -> Grouped:
        return Grouped(self.by, self.compute)

    def _kept(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        assert self.having is not None
        with under("having"):
            condition = check_condition(self.having, rows.collect_schema())
        return rows.filter(counted(rows, condition))


def _picked(rows: pl.LazyFrame, names: list[str]) -> pl.LazyFrame:
    return rows.select(names)
