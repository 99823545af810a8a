"""Put values in the place of missing ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.errors import StageError
from pipeline.sql.checks import Problem, failing
from pipeline.sql.expression import Value, finite
from pipeline.stage import ColumnName, ColumnNames, FittedRows, need_columns, need_keys
from pipeline.stages.features._groups import FILL, group_counts, group_figures, with_group_fill
from pipeline.tables.infinities import counted
from pipeline.tables.part import Schema
from pipeline.tables.ranks import Counted

Method = Literal["mean", "median", "most_frequent", "zero"]
Constant = bool | int | float | str
DIGITS = 12
SEEN = "rows seen"


class Fill(BaseModel):
    """What a column's missing values become: a `value`, or what a `method` finds in the rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Constant | None = Field(None, description="A constant of the column's kind.")
    method: Method | None = Field(None, description="mean, median or most_frequent of the rows to learn from, or zero.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.value is None) == (self.method is None):
            raise ValueError("give either value (a constant) or method (mean, median, most_frequent, zero)")
        return self


class FillMissing(FittedRows, name="fill_missing", version=3):
    """Replace missing values by a constant, or by the mean, median or most frequent value of the rows it learns from.

    A column filled with its mean or median becomes Float64. The mean is rounded to 12 significant digits, so that it does not depend on how
    the rows were divided; median and most frequent value (of several the least) are exact. A column without any value stays missing.
    With `by` mean and median are those of the row's group (a missing key is a group of its own), and of all rows where its group has none.
    A value that is infinite, or NaN, counts as missing. A mean or median beyond Float64 fails the run.

    Example: {use: fill_missing, from: divided, as: filled, columns: [credit_score, dti], method: mean, fit_where: "split = 'train'"}
    """

    columns: ColumnNames | dict[ColumnName, Fill] = Field(description="Columns, or a mapping of columns to {value: ...} or {method: ...}.")
    value: Constant | None = Field(None, description="The constant for a list of columns.")
    method: Method | None = Field(None, description="The method for a list of columns.")
    by: ColumnNames | None = Field(None, description="The columns that make a group, for mean and median.")
    indicator: bool = Field(False, description="Add NAME_missing, Int8: 1 where the value was missing.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if isinstance(self.columns, Mapping):
            if self.value is not None or self.method is not None:
                raise ValueError("columns says what each column gets: leave out value and method")
        else:
            Fill(value=self.value, method=self.method)
        if self.by and not (self._by("mean", "median") and not self._by("most_frequent")):
            raise ValueError("by is for mean and median: leave it out, or fill other columns in a stage of their own")
        return self

    @property
    def fills(self) -> dict[str, Fill]:
        """What each column gets."""
        if isinstance(self.columns, Mapping):
            return dict(self.columns)
        return {name: Fill(value=self.value, method=self.method) for name in self.columns}

    def check_input(self, role: str, schema: Schema) -> None:
        """Columns exist, what fills them is of their kind, and indicators have names of their own."""
        need_columns(schema, self.fills, key="columns")
        for name, fill in self.fills.items():
            if problem := _unfit(fill, schema.columns[name]):
                raise StageError(f"column {name!r} is {schema.columns[name]}: {problem}", key="columns")
            if self.by and name in self.by:
                raise StageError(f"column {name!r} makes the groups, and cannot be filled by them", key="by")
            if self.indicator and f"{name}_missing" in schema.columns:
                raise StageError(f"there is a column '{name}_missing' already. Rename it before, or leave out indicator.", key="indicator")
        need_keys(schema, self.by or (), key="by")

    def writes(self) -> frozenset[str]:
        """The columns filled, and their indicators."""
        return frozenset(self.fills) | {f"{name}_missing" for name in self.fills if self.indicator}

    def _by(self, *methods: Method) -> list[str]:
        return [name for name, fill in self.fills.items() if fill.method in methods]

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """One row of sums and counts for the means; for the others every value with its count."""
        rows = rows.with_columns(value.expr.alias(name) for name, value in _finite_only(rows, self.fills).items())
        means = self._by("mean")
        sums = [pl.col(name).cast(pl.Float64).sum().alias(f"sum:{name}") for name in means]
        counts = [pl.col(name).count().cast(pl.Int64).alias(f"count:{name}") for name in means]
        frames = [rows.select(pl.len().cast(pl.Int64).alias(SEEN), *sums, *counts)]
        for name in self._by("median", "most_frequent"):
            values = rows.select(pl.col(name).alias(f"value:{name}")).drop_nulls()
            frames.append(values.group_by(f"value:{name}").agg(pl.len().cast(pl.Int64).alias(f"count:{name}")))
        frames += [group_counts(rows, self.by, name) for name in self._by("mean", "median") if self.by]
        return pl.concat(frames, how="diagonal")

    def ranked(self) -> tuple[Sequence[Counted], Sequence[float]]:
        """The values of columns that get their median."""
        return [Counted(f"value:{name}", f"count:{name}") for name in self._by("median")], (0.5,)

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """One row: the number of rows seen, and per column that learns, by its name, what it is filled with."""
        means = [_rounded_mean(name) for name in self._by("mean")]
        frames = [partial.select(pl.col(SEEN).sum(), *means)]
        frames += [_counted(partial, name).select(_median(name)) for name in self._by("median")]
        frames += [_counted(partial, name).select(_most_frequent(name)) for name in self._by("most_frequent")]
        whole = pl.concat(frames, how="horizontal_extend")
        if not self.by:
            return whole
        groups = [group_figures(partial, self.by, name, median=name in self._by("median")) for name in self._by("mean", "median")]
        return pl.concat([whole, *groups], how="diagonal")

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows without gaps in those columns."""
        rows = rows.with_columns(counted(rows, value).alias(name) for name, value in _finite_only(rows, self.fills).items())
        schema = rows.collect_schema()
        marks = [pl.col(name).is_null().cast(pl.Int8).alias(f"{name}_missing") for name in self.fills if self.indicator]
        whole, filled = fitted.filter(pl.col(SEEN).is_not_null()), []
        for name, fill in self.fills.items():
            learns = fill.method not in {None, "zero"}
            dtype = fitted.schema[name] if learns else schema[name]
            value = whole[name].item() if learns else 0 if fill.value is None else fill.value
            if self.by and learns:
                rows = with_group_fill(rows, self.by, name, fitted.filter(pl.col(SEEN).is_null())).rename({FILL: f"{FILL}{name}"})
                filled.append(pl.coalesce(pl.col(name).cast(dtype), f"{FILL}{name}", pl.lit(value, dtype=dtype)).alias(name))
            else:
                filled.append(pl.col(name).cast(dtype).fill_null(pl.lit(value, dtype=dtype)))
        return rows.with_columns(*filled, *marks).drop([f"{FILL}{name}" for name in self._by("mean", "median") if self.by])


def _rounded_mean(name: str) -> pl.Expr:
    total, count = pl.col(f"sum:{name}").sum(), pl.col(f"count:{name}").sum()
    return pl.when(count > 0).then(_within_floats(total / count, name)).otherwise(None).round_sig_figs(DIGITS).alias(name)


def _within_floats(value: pl.Expr, name: str) -> pl.Expr:
    """What a column is filled with, and an error in the run where it is beyond Float64."""
    problem = Problem(f"what {name!r} would be filled with is beyond Float64", "Divide the column in a derive before.", (), "columns")
    return failing(value, value.is_infinite(), problem)


def _finite_only(rows: pl.LazyFrame, names: Iterable[str]) -> dict[str, Value]:
    """The floats among those columns, with null for NaN and infinities."""
    schema = rows.collect_schema()
    floats = {name: dtype for name, dtype in schema.items() if name in set(names) and dtype.is_float()}
    return {name: Value(finite(pl.col(name), dtype), dtype, pl.col(name).is_infinite()) for name, dtype in floats.items()}


def _counted(partial: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """The distinct values in order, with their counts over all parts."""
    values = partial.select(f"value:{name}", f"count:{name}").drop_nulls()
    return values.group_by(f"value:{name}").agg(pl.col(f"count:{name}").sum()).sort(f"value:{name}")


def _median(name: str) -> pl.Expr:
    value, count = pl.col(f"value:{name}"), pl.col(f"count:{name}")
    reached, total = count.cum_sum(), count.sum()
    low, high = value.filter(reached >= (total + 1) // 2).min(), value.filter(reached >= total // 2 + 1).min()
    return _within_floats((low.cast(pl.Float64) + high.cast(pl.Float64)) / 2, name).alias(name)


def _most_frequent(name: str) -> pl.Expr:
    count = pl.col(f"count:{name}")
    return pl.col(f"value:{name}").filter(count == count.max()).min().alias(name)


def _unfit(fill: Fill, dtype: pl.DataType) -> str:
    """Why a column of that type cannot be filled so; '' where it can."""
    if fill.method is not None:
        need = fill.method != "most_frequent" and not dtype.is_numeric()
        return f"{fill.method} needs numbers. Use most_frequent, or a constant." if need else ""
    value = fill.value
    kind = pl.Boolean if isinstance(value, bool) else pl.String if isinstance(value, str) else None
    if (kind is None and not dtype.is_numeric()) or (kind is not None and dtype != kind):
        return f"the constant {value!r} is of another kind."
    if kind is None and not math.isfinite(float(value or 0)):
        return f"the constant {value!r} is no number."
    if dtype.is_integer() and float(value or 0) != int(value or 0):
        return f"the constant {value!r} has a fraction. Cast the column to float64 before."
    try:
        pl.Series([value]).cast(dtype)
    except pl.exceptions.PolarsError:
        return f"the constant {value!r} is beyond its range."
    return ""
