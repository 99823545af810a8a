"""One row a key: sums, means, counts and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.errors import DataError, StageError, near, under
from pipeline.stage import ColumnName, ColumnNames, Context, Keyed, Outcome, need_keys
from pipeline.stages.relational._computed import AGGREGATES, HALVED, NUMERIC, SPREADS, STEPS, WIDE, Computed, written_out
from pipeline.stages.relational._sums import HALVES, bounded, halves, may_outgrow
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES, counted, made_finite
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class Aggregate(Keyed, name="aggregate", version=4):
    """One row a key, with sums, means, counts and the like of its rows; nulls do not count. The result is in the order of its keys.

    `function(column)` is the short way to write one. count counts values, size rows, n_unique distinct values: all Int64. A sum of no
    values is 0, any other function of none is null; std and var are those of a sample (n - 1). The last digits of a float's sum or mean
    depend on the order of addition: round them in a derive where that matters. Sums of integers are Int64 (UInt64 of UInt64) and one that
    is beyond that fails the run; sums of decimals have their scale and 38 digits; means, also of what sums to more, are Float64.

    Example: {use: aggregate, from: valid, as: per_loan, by: loan_id, compute: {rows: size(), balance_mean: mean(balance),
    balance_last: {function: last, of: balance, order_by: month}, late: {function: count, of: month, where: days_late > 30}}}
    """

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    by: ColumnNames = Field(description="The columns that make a key.")
    compute: dict[ColumnName, Annotated[Computed, BeforeValidator(written_out)]] = Field(min_length=1, description="Name: what to compute.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Keys exist and are no floats, names are new, expressions fit."""
        need_keys(schema, self.by, key="by")
        if clash := sorted(set(self.by) & set(self.compute)):
            raise StageError(f"compute names {clash[0]!r}, which is a key. Give the result another name.", key="compute")
        self._values(schema.columns, schema.columns.to_frame().lazy())

    def keys(self) -> Sequence[str]:
        """The columns that make a key."""
        return self.by

    def writes(self) -> frozenset[str]:
        """The columns computed; some may be named like columns that were."""
        return frozenset(self.compute)

    def partial(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """One row a key of this part, with sums and counts in place of means; all rows where a function cannot be split."""
        return self._grouped(self._valued(rows), merging=False) if self._splits else rows

    def final(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from what the parts gave."""
        return self._finished(self._grouped(rows, merging=True)) if self._splits else self.apply(rows)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The result, from all rows of its keys."""
        return self._finished(self._grouped(self._valued(rows), merging=False))

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """As any stage with keys; then a look at sums that can outgrow 64 bits: they are never null otherwise."""
        (rows,) = tables.values()
        assert rows.schema is not None
        outcome = super().run(tables, context)
        sums = {name: computed for name, computed in self.compute.items() if computed.function == "sum"}
        wide = [name for name, computed in sums.items() if may_outgrow(computed.value(rows.schema.columns)[1])]
        return Outcome({"": outcome.tables[""].map_parts(self._checked, wide, writes=frozenset())}) if wide else outcome

    def _checked(self, part: Part, sums: list[str]) -> Part:
        """The part, once no sum outgrew its type; raises DataError with the key of the first that did."""
        for name in sums:
            if part.frame[name].null_count():
                row = part.frame.filter(pl.col(name).is_null()).row(0, named=True)
                place = ", ".join(f"{column} {row[column]!r}" for column in self.by)
                raise DataError(
                    f"the sum is beyond {part.frame.schema[name]} for {place}. "
                    f"Add up floats, as in sum(cast({self.compute[name].of} as double)), or take the mean.",
                    key=f"compute.{name}",
                )
        return part

    @property
    def _splits(self) -> bool:
        return all(computed.splits for computed in self.compute.values())

    def _valued(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select(*self.by, *self._values(rows.collect_schema(), rows))

    def _values(self, schema: pl.Schema, rows: pl.LazyFrame) -> list[pl.Expr]:
        """Per result the values that count, and for first and last their order: null where the value does not count."""
        found = []
        for name, computed in self.compute.items():
            with under(f"compute.{name}"):
                value, dtype = computed.value(schema)
            if self._value_names[name] == f"value:{name}":
                found.append(counted(rows, value).alias(f"value:{name}"))
                if computed.function in HALVED and may_outgrow(dtype):
                    found += [half.alias(f"{step}:{name}") for step, half in halves(value.expr, dtype).items()]
            if computed.order_by is not None:
                if computed.order_by not in schema:
                    problem = f"no column {computed.order_by!r}.{near(computed.order_by, schema)}"
                    raise StageError(problem, key=f"compute.{name}.order_by")
                found.append(pl.when(value.expr.is_not_null()).then(pl.col(computed.order_by)).otherwise(None).alias(f"order:{name}"))
        return found

    @property
    def _value_names(self) -> dict[str, str]:
        """The column that each result reads: those of the same values share one, but for first and last, which change theirs."""
        first: dict[tuple[Any, ...], str] = {}
        keys = {
            name: (c.of, c.where, c.function in HALVED, c.function in NUMERIC, name if c.ordered else "")
            for name, c in self.compute.items()
        }
        return {name: f"value:{first.setdefault(key, name)}" for name, key in keys.items()}

    def _grouped(self, rows: pl.LazyFrame, *, merging: bool) -> pl.LazyFrame:
        columns = rows.collect_schema()
        steps: list[pl.Expr] = []
        picks: list[pl.Expr] = []
        for name, computed in self.compute.items():
            if computed.ordered:
                picks += self._picks(name, computed)
                steps += self._picked(name, computed)
                continue
            values = self._value_names[name]
            if computed.function in SPREADS:
                picks.append((pl.col(values) - pl.col(values).mean().over(*self.by)).alias(f"apart:{name}"))
                values = f"apart:{name}"
            halved, wide = (
                (f"{part}:{name}" if merging else values.replace("value:", f"{part}:", 1)) in columns for part in ("high", "about")
            )
            kinds = HALVED if halved else WIDE if wide else STEPS
            for step, merge in (kinds if computed.function in kinds else STEPS)[computed.function].items():
                given = values.replace("value:", f"{step}:", 1) if step in {*HALVES, "about"} else values
                source = pl.col(f"{step}:{name}" if merging else given)
                steps.append(AGGREGATES[merge if merging and merge else step](source).alias(f"{step}:{name}"))
        grouped = (rows.with_columns(picks) if picks else rows).group_by(*self.by).agg(steps)
        schema = grouped.collect_schema()
        bounds = [bound for name in self.compute if f"about:{name}" in schema for bound in bounded(name, schema)]
        return grouped.with_columns(bounds) if bounds else grouped

    def _picks(self, name: str, computed: Computed) -> list[pl.Expr]:
        """Where rows may tie: the values of a key's first or last rows alone, null for its others."""
        if computed.ties == "none":
            return []
        order = pl.col(f"order:{name}")
        best = AGGREGATES["max" if computed.function == "last" else "min"](order).over(*self.by)
        return [pl.when(order == best).then(pl.col(f"value:{name}")).otherwise(None).alias(f"value:{name}")]

    def _picked(self, name: str, computed: Computed) -> list[pl.Expr]:
        value, order = pl.col(f"value:{name}"), pl.col(f"order:{name}")
        last = computed.function == "last"
        picked = value.max() if computed.ties == "greatest" else value.max_by(order) if last else value.min_by(order)
        return [picked.alias(f"value:{name}"), AGGREGATES["max" if last else "min"](order).alias(f"order:{name}")]

    def _finished(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        columns = rows.collect_schema()
        results = rows.select(*self.by, *(computed.finished(name, columns) for name, computed in self.compute.items()))
        dtypes = results.collect_schema()
        values = {name: made_finite(pl.col(name), dtypes[name]) for name in self.compute}
        return results.with_columns(counted(results, value).alias(name) for name, value in values.items()).sort(*self.by, nulls_last=True)
