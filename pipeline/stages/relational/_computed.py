"""What an aggregate computes: functions, the steps of those that parts can share, and the values that count."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.errors import StageError, under
from pipeline.sql.expression import Value, check_condition, value_of
from pipeline.stage import ColumnName
from pipeline.stages.relational._sums import HALVES, as_float, fits, sum_type, whole

Function = Literal["sum", "mean", "min", "max", "count", "size", "n_unique", "std", "var", "median", "first", "last"]


AGGREGATES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "sum": lambda value: value.sum(),
    "min": lambda value: value.min(),
    "max": lambda value: value.max(),
    "count": lambda value: value.count().cast(pl.Int64),
    "n_unique": lambda value: value.drop_nulls().n_unique().cast(pl.Int64),
    "std": lambda value: value.std(),
    "var": lambda value: value.var(),
    "median": lambda value: value.median(),
    **{part: lambda value: value.sum() for part in (*HALVES, "about")},
}
# Function -> what is taken of its values, and how that is taken of several parts' results (None: it cannot be).
STEPS: dict[str, dict[str, str | None]] = {
    **{name: {name: name} for name in ("sum", "min", "max")},
    "mean": {"sum": "sum", "count": "sum"},
    "count": {"count": "sum"},
    "size": {"count": "sum"},
    **{name: {name: None} for name in ("n_unique", "std", "var", "median")},
}
HALVED: dict[str, dict[str, str | None]] = {
    "sum": {"high": "sum", "low": "sum"},
    "mean": {"high": "sum", "low": "sum", "count": "sum"},
}
WIDE: dict[str, dict[str, str | None]] = {  # of decimals whose sums may outgrow their digits, which cuDF does not say
    "sum": {"sum": "sum", "about": "sum"},
    "mean": {"sum": "sum", "about": "sum", "count": "sum"},
}
SPREADS = {"std", "var"}  # cuDF takes them from sums of squares, which cancel where values lie far from 0: their mean is taken off before
NUMERIC = {"sum", "mean", "std", "var", "median"}
SHORT = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)


def written_out(value: Any) -> Any:
    """`mean(balance)` as {function: mean, of: balance}."""
    if not isinstance(value, str):
        return value
    if not (match := SHORT.fullmatch(value)):
        raise ValueError(f"{value!r} is not function(column), as in mean(balance)")
    return {"function": match[1], **({"of": match[2]} if match[2] else {})}


class Computed(BaseModel):
    """One column of the result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: Function
    of: str | None = Field(None, description="A column or an SQL expression; size takes none.")
    where: str | None = Field(None, description="SQL: the rows that count; all where it is not given.")
    order_by: ColumnName | None = Field(None, description="first and last: the column that orders a key's rows.")
    ties: Literal["greatest", "none"] = Field(
        "greatest",
        description="first and last, of rows that tie in order_by: the greatest value. `none` promises that no rows tie; it saves a pass.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.of is None) != (self.function == "size"):
            raise ValueError(
                "size counts rows and takes no column" if self.of else f"{self.function} needs `of`: a column or an expression"
            )
        if (self.order_by is not None) != self.ordered:
            raise ValueError(f"{self.function} {'needs' if self.ordered else 'takes no'} order_by")
        return self

    @property
    def ordered(self) -> bool:
        """Whether it is first or last."""
        return self.function in {"first", "last"}

    @property
    def splits(self) -> bool:
        """Whether it can be had from what parts of a key's rows give."""
        return self.ordered or None not in STEPS[self.function].values()

    def value(self, schema: pl.Schema) -> tuple[Value, pl.DataType]:
        """The values that count, null for the others, and their type before sums widen it; raises where they do not fit."""
        value = self._given(schema)
        if self.function not in NUMERIC:
            return value, value.dtype
        if not (value.dtype.is_numeric() or value.dtype == pl.Boolean):
            raise StageError(f"{self.function}({self.of}) needs numbers, and that is {value.dtype}. Cast it, or count it.")
        wide = sum_type(value.dtype) if self.function in HALVED else pl.Float64()
        return Value(value.expr.cast(wide), wide, value.infinite), value.dtype

    def _given(self, schema: pl.Schema) -> Value:
        """A column by its name, whatever it is; else the expression."""
        condition = None
        if self.where is not None:
            with under("where"):
                condition = check_condition(self.where, schema)
        if self.of is None or self.of not in schema:
            value_of(text := "1" if self.of is None else self.of, schema)  # whose errors are not of `where`
            return value_of(text, schema, self.where)
        if condition is None:
            return Value(pl.col(self.of), schema[self.of], None)
        return Value(pl.when(condition.expr).then(pl.col(self.of)).otherwise(None), schema[self.of], condition.infinite)

    def finished(self, name: str, schema: pl.Schema) -> pl.Expr:
        """The result from the steps' columns; a sum beyond its type is null."""
        if self.ordered:
            return pl.col(f"value:{name}").alias(name)
        halved, about = f"high:{name}" in schema, f"about:{name}" in schema
        if self.function == "sum" and halved:
            return whole(pl.col(f"high:{name}"), pl.col(f"low:{name}"), schema[f"high:{name}"]).alias(name)
        if self.function == "sum" and about:
            return pl.when(fits(pl.col(f"about:{name}"), schema[f"sum:{name}"])).then(pl.col(f"sum:{name}")).otherwise(None).alias(name)
        if self.function == "mean":
            total = pl.col(f"{'about' if about else 'sum'}:{name}").cast(pl.Float64)
            if halved:
                total = as_float(pl.col(f"high:{name}"), pl.col(f"low:{name}"), schema[f"high:{name}"])
            count = pl.col(f"count:{name}")
            return pl.when(count > 0).then(total / count).otherwise(None).alias(name)
        (step,) = STEPS[self.function]
        return pl.col(f"{step}:{name}").alias(name)
