"""Rows by steps of time: an aggregate a step, and what stands where a step has no rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import polars as pl
from pydantic import BeforeValidator, Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, Stage, need_columns, need_keys
from pipeline.stages.relational._computed import Computed, written_out
from pipeline.stages.relational._ordered.between import around, line, seen
from pipeline.stages.relational._ordered.gaps import GAP, STEP, with_gaps
from pipeline.stages.relational._ordered.groups import START, By, grouped
from pipeline.stages.relational._ordered.known import PLACE
from pipeline.stages.relational._ordered.spans import as_number
from pipeline.stages.relational._ordered.steps import Steps
from pipeline.stages.relational._ordered.stretched import Stretched
from pipeline.stages.relational.aggregate import Aggregate
from pipeline.tables.audits import GROUP_COUNTS
from pipeline.tables.counts import Count
from pipeline.tables.infinities import INFINITIES
from pipeline.tables.pairs import for_two
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

Gaps = Literal["none", "null", "zero", "forward", "interpolate"]


def named_null(value: object) -> object:
    """YAML's null is the rule of that name."""
    if isinstance(value, Mapping):
        return {name: "null" if rule is None else rule for name, rule in value.items()}
    return "null" if value is None else value


class Resample(Stage, name="resample", version=2):
    """One row for each step of time and key, with sums, means and the like of its rows, as aggregate computes them.

    `time` becomes the beginning of its step. Steps are fixed (15m, 6h, 1d; weeks begin on Monday) or of the calendar (1mo, 1q, 1y), all
    counted from 1970; of a column of whole numbers they are counted from 0, and become Int64. A step holds its beginning, not its end.
    In a zone, steps of more than an hour are those of the local clock: a day begins at its midnight (the first of two, or when the clock
    goes on where there is none) and has 23, 24 or 25 hours, and 6h begins at 0, 6, 12 and 18 o'clock. An hour shown twice is two of 1h.

    `gaps` says what becomes of steps without rows, from a key's first step to its last: none leaves them out, null gives a row with nulls,
    zero one with 0, forward repeats the last known value before, and interpolate takes the line, in time, from the last known value before
    to the next one after, Float64. A mapping says it by column; what it does not name is null. A value that is null in a step with rows
    stays so. Rows without a time make a row of their own. The result is in the order of keys, then of time;
    over several workers each part is, and the whole only with a sort. Beyond memory keys of more steps than a task may hold, rows or none,
    lie in several parts, one behind the other.

    Example: {use: resample, from: readings, as: flow, by: sensor, time: time, every: 15m, compute: {cars: sum(count), speed: mean(speed)},
    gaps: {cars: zero, speed: interpolate}}
    """

    counts: ClassVar[Mapping[str, Count]] = {**INFINITIES, **GROUP_COUNTS}

    by: By = Field((), description="The columns that make a key, beside the step; none: all rows are one series.")
    time: ColumnName = Field(description="Column of dates, timestamps, or numbers.")
    every: str = Field(description="The step: 15m, 1h, 1d, 1w, 1mo, 1q, 1y, or a whole number for a column of numbers.")
    offset: str | None = Field(None, description="How much later steps begin, which are not of the calendar: 6h, or a whole number.")
    compute: dict[ColumnName, Annotated[Computed, BeforeValidator(written_out)]] = Field(min_length=1, description="Name: what to compute.")
    gaps: Annotated[Gaps | dict[ColumnName, Gaps], BeforeValidator(named_null)] = Field(
        "none", description="Steps without rows: left out, or what each column is there."
    )

    def check_input(self, role: str, schema: Schema) -> None:
        """Columns exist, the step is one of the column's, what is computed fits, and gaps can be filled so."""
        need_keys(schema, self.by, key="by")
        need_columns(schema, [self.time], key="time")
        steps = self._steps(schema.columns)
        if clash := sorted({*self.by, self.time} & set(self.compute)) or sorted({self.time} & set(self.by)):
            raise StageError(f"{clash[0]!r} would be two columns of the result. Give one of them another name.", key="compute")
        columns = pl.Schema({**schema.columns, STEP: steps.dtype})
        self._aggregate.check_input(role, Schema(columns))
        named = self.gaps if isinstance(self.gaps, Mapping) else {}
        need_columns(Schema(pl.Schema(dict.fromkeys(self.compute, pl.Null()))), named, key="gaps")
        if "none" in named.values():
            raise StageError("none leaves out whole rows, and stands for all columns: gaps: none", key="gaps")
        computed = self._aggregate.results(columns)
        for name, rule in self._rules.items():
            if rule in {"zero", "interpolate"} and not computed[name].is_numeric():
                raise StageError(f"{rule} needs numbers, and {name!r} is {computed[name]}. Take null or forward for it.", key="gaps")

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """The keys, the time, and the columns that values are computed from, whatever is wanted."""
        ((role, schema),) = schemas.items()
        columns = pl.Schema({**schema.columns, STEP: self._steps(schema.columns).dtype})
        return {role: {*self._aggregate.needs({role: Schema(columns)}, wanted)[role], self.time} - {STEP}}

    @property
    def _aggregate(self) -> Aggregate:
        return Aggregate(by=(*self.by, STEP), compute=self.compute)

    @property
    def _rules(self) -> dict[str, Gaps]:
        """What each column is in a step without rows."""
        return {name: self.gaps.get(name, "null") if isinstance(self.gaps, Mapping) else self.gaps for name in self.compute}

    def _steps(self, schema: pl.Schema) -> Steps:
        steps = Steps.of(self.every, self.time, schema[self.time], key="every")
        return steps if self.offset is None else steps.later(self.offset, key="offset")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A step for each row, an aggregate by it, and, where gaps are filled, the steps of each key in one part."""
        (rows,) = tables.values()
        assert rows.schema is not None
        steps = self._steps(rows.schema.columns)
        stepped = rows.named(context.name).map(_stepped, steps, writes=frozenset({STEP}))
        columns = pl.Schema({**rows.schema.columns, STEP: steps.dtype})
        found = self._aggregate.run({"rows": replace(stepped, schema=Schema(columns))}, context).tables[""]
        writes = frozenset({STEP, self.time, *self.compute})
        if self.gaps != "none" and rows.is_beyond:
            found = self._beyond(replace(found, schema=Schema(self._aggregate.results(columns))), steps)
        elif self.gaps != "none":
            found = self._together(found, steps)
        return Outcome({"": found.map(self._named, writes=writes)})

    def _together(self, found: Table, steps: Steps) -> Table:
        """Every step, those of a key in one part."""
        writes = frozenset({STEP, *self.compute})
        return grouped(found, self.by).map_parts(with_gaps, self.by, steps, writes=writes).map(self._filled, writes=writes)

    def _beyond(self, found: Table, steps: Steps) -> Table:
        """The same of rows beyond memory: where there are too many steps for a task all lie in order, in several parts."""
        stretched, found = Stretched(self.by, steps, self._rules), for_two(found)
        return stretched.table(found).map(self._put_in) if stretched.applies(found) else self._together(found, steps)

    def _ruled(self, wanted: Gaps) -> tuple[str, ...]:
        return tuple(name for name, rule in self._rules.items() if rule == wanted)

    def _filled(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows of whole keys in order, those of gaps with what their columns are there."""
        rows = rows.with_columns(as_number(STEP).alias(PLACE))
        asides = [expr for name in self._ruled("interpolate") for expr in around(name, PLACE)]
        before = [pl.col(name).forward_fill().over(START).alias(seen(name, "before")) for name in self._ruled("forward")]
        return self._put_in(rows.with_columns(*asides, *before)).sort(*self.by, STEP, nulls_last=True)

    def _put_in(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows, those of gaps with what comes of the values that are known around them."""
        schema, lines = rows.collect_schema(), self._ruled("interpolate")
        filled = {name: line(name, PLACE) for name in lines} | {name: pl.col(seen(name, "before")) for name in self._ruled("forward")}
        filled |= {name: pl.lit(0, dtype=schema[name]) for name in self._ruled("zero")}
        kept = {name: pl.col(name).cast(pl.Float64) if name in lines else pl.col(name) for name in filled}
        given = [pl.when(pl.col(GAP)).then(expr).otherwise(kept[name]).alias(name) for name, expr in filled.items()]
        return rows.with_columns(as_number(STEP).alias(PLACE)).with_columns(given)

    def _named(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select(*self.by, pl.col(STEP).alias(self.time), *self.compute)


def _stepped(rows: pl.LazyFrame, steps: Steps) -> pl.LazyFrame:
    return rows.with_columns(steps.begin(steps.number()).alias(STEP))
