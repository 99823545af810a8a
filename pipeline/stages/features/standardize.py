"""Numbers with mean 0 and standard deviation 1."""

from __future__ import annotations

import polars as pl
from pydantic import Field

from pipeline.sql.checks import Problem, failing
from pipeline.sql.expression import Value, finite
from pipeline.stage import ColumnNames, FittedRows, need_numeric
from pipeline.tables.infinities import counted
from pipeline.tables.part import Schema


class Standardize(FittedRows, name="standardize", version=3):
    """Subtract the mean and divide by the standard deviation (of all rows learned from: n, not n - 1); Float64. Missing stays missing.

    A value that is infinite, or NaN, counts as missing; so does one whose result would be. A column whose values are all one becomes 0.
    A mean or variance beyond Float64 fails the run.
    The table NAME.fitted has column, count, mean, sd, least and greatest value.

    Example: {use: standardize, from: filled, as: scaled, columns: [age, ldl], fit_where: "split = 'train'"}
    """

    columns: ColumnNames = Field(description="The columns to standardize: numbers.")

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist, and hold numbers."""
        need_numeric(schema, self.columns, key="columns")

    def writes(self) -> frozenset[str]:
        """The columns standardized."""
        return frozenset(self.columns)

    def fit(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """One row: per column the count, mean, sum and sum of squares about that mean, least and greatest value."""
        found = []
        for name in self.columns:
            value = _value(name)
            apart = value - value.mean()
            figures = {"count": value.count().cast(pl.Int64), "mean": value.mean(), "rest": apart.sum(), "squares": (apart**2).sum()}
            figures |= {"min": value.min(), "max": value.max()}
            found += [expr.alias(f"{figure}:{name}") for figure, expr in figures.items()]
        return rows.select(found)

    def merge(self, partial: pl.LazyFrame) -> pl.LazyFrame:
        """Column, count, mean, sd, min and max, without the cancellation of sums of squares about 0.

        Chan, Golub & LeVeque (1983), Am Stat 37:242-247; the sums about a part's mean, which rounding leaves, are carried along.
        """
        return pl.concat([partial.select(_merged(name)) for name in self.columns])

    def apply(self, rows: pl.LazyFrame, fitted: pl.DataFrame) -> pl.LazyFrame:
        """The rows with the columns standardized."""
        state = {row["column"]: row for row in fitted.iter_rows(named=True)}
        values = {name: _scaled(name, state[name]["mean"], state[name]["sd"]) for name in self.columns}
        return rows.with_columns(counted(rows, value).alias(name) for name, value in values.items())


def _merged(name: str) -> list[pl.Expr]:
    count, mean, rest, own, least, most = (pl.col(f"{figure}:{name}") for figure in ("count", "mean", "rest", "squares", "min", "max"))
    total = count.sum()
    rough = (count * mean).sum() / total
    center = rough + (count * (mean - rough) + rest).sum() / total
    squares = (own + 2 * (mean - center) * rest + count * (mean - center) ** 2).sum()
    spread = pl.when(least.min() < most.max()).then((squares / total).sqrt()).otherwise(0.0)
    vanishes = (least.min() < most.max()) & (spread == 0)
    beyond = (total > 0) & (vanishes | ~(center.is_finite() & spread.is_finite()))
    problem = Problem(f"the mean or the variance of {name!r} is beyond Float64", "Divide the column in a derive before.", (), "columns")
    figures = {"count": total, "mean": failing(center, beyond, problem), "sd": spread, "min": least.min(), "max": most.max()}
    return [pl.lit(name).alias("column"), *(pl.when(total > 0).then(expr).otherwise(None).alias(key) for key, expr in figures.items())]


def _scaled(name: str, mean: float | None, deviation: float | None) -> Value:
    value, infinite = _value(name), pl.col(name).cast(pl.Float64).is_infinite()
    if deviation == 0:
        return Value(pl.when(value.is_not_null()).then(0.0).otherwise(None), pl.Float64(), infinite)
    scaled = finite((value - pl.lit(mean, dtype=pl.Float64)) / pl.lit(deviation, dtype=pl.Float64), pl.Float64())
    outgrown = value.is_not_null() & scaled.is_null() if mean is not None else pl.lit(False)
    return Value(scaled, pl.Float64(), infinite | outgrown)


def _value(name: str) -> pl.Expr:
    """The column's finite values as floats."""
    return finite(pl.col(name).cast(pl.Float64), pl.Float64())
