"""One row a key: sums, means, counts and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pipeline.errors import StageError, near, under
from pipeline.sql.expression import check_filter, check_value, finite
from pipeline.stage import ColumnName, ColumnNames, Keyed, need_keys
from pipeline.tables.part import Schema

Function = Literal["sum", "mean", "min", "max", "count", "size", "n_unique", "std", "var", "median", "first", "last"]
Aggregate1 = Callable[[pl.Expr], pl.Expr]

AGGREGATES: dict[str, Aggregate1] = {
    "sum": lambda value: value.sum(),
    "min": lambda value: value.min(),
    "max": lambda value: value.max(),
    "count": lambda value: value.count().cast(pl.Int64),
    "n_unique": lambda value: value.drop_nulls().n_unique().cast(pl.Int64),
    "std": lambda value: value.std(),
    "var": lambda value: value.var(),
    "median": lambda value: value.median(),
}
# Function -> what is taken of its values, and how that is taken of several parts' results (None: it cannot be).
STEPS: dict[str, dict[str, str | None]] = {
    **{name: {name: name} for name in ("sum", "min", "max")},
    "mean": {"sum": "sum", "count": "sum"},
    "count": {"count": "sum"},
    "size": {"count": "sum"},
    **{name: {name: None} for name in ("n_unique", "std", "var", "median")},
}
NUMERIC = {"sum", "mean", "std", "var", "median"}
SHORT = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)


def _written_out(value: Any) -> Any:
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

    def value(self, schema: pl.Schema) -> pl.Expr:
        """The values that count, null for the others; raises ExpressionError or StageError where they do not fit."""
        expr, dtype = (pl.lit(1), pl.Int64()) if self.of is None else _named_or_sql(self.of, schema)
        if self.function in NUMERIC:
            if not (dtype.is_numeric() or dtype == pl.Boolean):
                raise StageError(f"{self.function}({self.of}) needs numbers, and that is {dtype}. Cast it, or count it.")
            expr = expr.cast(_wide(self.function, dtype))
        if self.where is None:
            return expr
        with under("where"):
            return pl.when(check_filter(self.where, schema)).then(expr).otherwise(None)

    def finished(self, name: str) -> pl.Expr:
        """The result from the steps' columns."""
        if self.ordered:
            return pl.col(f"value:{name}").alias(name)
        if self.function == "mean":
            count = pl.col(f"count:{name}")
            return pl.when(count > 0).then(pl.col(f"sum:{name}") / count).otherwise(None).alias(name)
        (step,) = STEPS[self.function]
        return pl.col(f"{step}:{name}").alias(name)


class Aggregate(Keyed, name="aggregate", version=1):
    """One row a key, with sums, means, counts and the like of its rows; nulls do not count. The result is in the order of its keys.

    `function(column)` is the short way to write one. count counts values, size rows, n_unique distinct values: all Int64. A sum of no
    values is 0, any other function of none is null; std and var are those of a sample (n - 1). The last digits of a float's sum or mean
    depend on the order of addition: round them in a derive where that matters.

    Example: {use: aggregate, from: valid, as: per_loan, by: loan_id, compute: {rows: size(), balance_mean: mean(balance),
    balance_last: {function: last, of: balance, order_by: month}, late: {function: count, of: month, where: days_late > 30}}}
    """

    by: ColumnNames = Field(description="The columns that make a key.")
    compute: dict[ColumnName, Annotated[Computed, BeforeValidator(_written_out)]] = Field(
        min_length=1, description="Name: what to compute."
    )

    def check_input(self, role: str, schema: Schema) -> None:
        """Keys exist and are no floats, names are new, expressions fit."""
        need_keys(schema, self.by, key="by")
        if clash := sorted(set(self.by) & set(self.compute)):
            raise StageError(f"compute names {clash[0]!r}, which is a key. Give the result another name.", key="compute")
        self._values(schema.columns)

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

    @property
    def _splits(self) -> bool:
        return all(computed.splits for computed in self.compute.values())

    def _valued(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select(*self.by, *self._values(rows.collect_schema()))

    def _values(self, schema: pl.Schema) -> list[pl.Expr]:
        """Per result the values that count, and for first and last their order: null where the value does not count."""
        found = []
        for name, computed in self.compute.items():
            with under(f"compute.{name}"):
                value = computed.value(schema)
            if self._value_names[name] == f"value:{name}":
                found.append(value.alias(f"value:{name}"))
            if computed.order_by is not None:
                if computed.order_by not in schema:
                    problem = f"no column {computed.order_by!r}.{near(computed.order_by, schema)}"
                    raise StageError(problem, key=f"compute.{name}.order_by")
                found.append(pl.when(value.is_not_null()).then(pl.col(computed.order_by)).otherwise(None).alias(f"order:{name}"))
        return found

    @property
    def _value_names(self) -> dict[str, str]:
        """The column that each result reads: those of the same values share one, but for first and last, which change theirs."""
        first: dict[tuple[Any, ...], str] = {}
        keys = {name: (c.of, c.where, c.function in NUMERIC, name if c.ordered else "") for name, c in self.compute.items()}
        return {name: f"value:{first.setdefault(key, name)}" for name, key in keys.items()}

    def _grouped(self, rows: pl.LazyFrame, *, merging: bool) -> pl.LazyFrame:
        steps: list[pl.Expr] = []
        picks: list[pl.Expr] = []
        for name, computed in self.compute.items():
            if computed.ordered:
                picks += self._picks(name, computed)
                steps += self._picked(name, computed)
                continue
            for step, merge in STEPS[computed.function].items():
                source = pl.col(f"{step}:{name}" if merging else self._value_names[name])
                steps.append(AGGREGATES[merge if merging and merge else step](source).alias(f"{step}:{name}"))
        return (rows.with_columns(picks) if picks else rows).group_by(*self.by).agg(steps)

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
        results = rows.select(*self.by, *(computed.finished(name) for name, computed in self.compute.items()))
        dtypes = results.collect_schema()
        return results.with_columns(finite(pl.col(name), dtypes[name]) for name in self.compute).sort(*self.by, nulls_last=True)


def _named_or_sql(text: str, schema: pl.Schema) -> tuple[pl.Expr, pl.DataType]:
    """A column by its name, whatever it is; else the expression."""
    if text in schema:
        return pl.col(text), schema[text]
    expr, dtype = check_value(text, schema)
    return finite(expr, dtype), dtype


def _wide(function: str, dtype: pl.DataType) -> pl.DataType:
    """The type to add up in: Int64 for whole numbers, so that sums are exact and do not overflow early; else Float64."""
    if function not in {"sum", "mean"} or dtype.is_float() or dtype.is_decimal():
        return pl.Float64()
    return pl.UInt64() if dtype == pl.UInt64 else pl.Int64()
