"""One column of an aggregate's result as a job writes it: its short form, what fits its function, and the values that count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Self

import polars as pl
from pydantic import model_validator

from pipeline.errors import StageError, near, under
from pipeline.sql.expression import Value, check_condition, value_of
from pipeline.stages.relational._aggregates.asked import Asked
from pipeline.stages.relational._aggregates.function import Function
from pipeline.stages.relational._aggregates.functions import FUNCTIONS
from pipeline.stages.relational._sums import halves, may_outgrow, sum_type

SHORT = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
PIECES = re.compile(r"'[^']*'|\"[^\"]*\"|.", re.DOTALL)
OPERANDS = ("other", "weights")  # a second one: rows count that have both
DEPTHS = {"(": 1, ")": -1}


def written_out(value: Any) -> Any:
    """`mean(balance)` as {function: mean, of: balance}, `quantile(balance, 0.9)` as {function: quantile, of: balance, q: 0.9}."""
    if not isinstance(value, str):
        return value
    if not (match := SHORT.fullmatch(value)):
        raise ValueError(f"{value!r} is not function(column), as in mean(balance)")
    function = FUNCTIONS.get(match[1])
    names = ("of",) if function is None or not function.takes else (*function.takes, *function.may_take)
    given = [match[2]] if len(names) == 1 else _split(match[2])
    if len(given) > len(names):
        raise ValueError(f"{value!r}: {match[1]} takes {', '.join(names)}, and {len(given)} are given")
    return {"function": match[1], **{name: text for name, text in zip(names, given, strict=False) if text}}


def _split(text: str) -> list[str]:
    """What stands between commas outside of brackets and quotes."""
    found, depth = [""], 0
    for piece in PIECES.findall(text):
        depth += DEPTHS.get(piece, 0)
        if piece == "," and depth == 0:
            found.append("")
        else:
            found[-1] += piece
    return [each.strip() for each in found]


class Computed(Asked):
    """One column of the result, whose parameters fit its function."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.of is None) != (self.function == "size"):
            raise ValueError(
                "size counts rows and takes no column" if self.of else f"{self.function} needs `of`: a column or an expression"
            )
        function = self.by_name
        for name in self.model_fields_set - {"function", "of", "where"}:
            if getattr(self, name) is not None and name not in (*function.takes, *function.may_take):
                raise ValueError(f"{self.function} takes no {name}")
        if lacking := [name for name in function.takes if getattr(self, name) is None]:
            raise ValueError(f"{self.function} needs {lacking[0]}")
        if self.edges is not None and list(self.edges) != sorted(set(self.edges)):
            raise ValueError(f"edges must rise from each to the next: {list(self.edges)}")
        return self

    @property
    def by_name(self) -> Function:
        """Its function."""
        return FUNCTIONS[self.function]

    @property
    def shared(self) -> tuple[Any, ...]:
        """What tells its column of values from others': results of the same values share one."""
        return (self.of, self.where, self.by_name.widened)

    def values(self, schema: pl.Schema) -> Iterator[tuple[str, Value]]:
        """The columns that its steps read, null in rows that do not count: part and value. Raises StageError where they do not fit."""
        value, dtype = self.operand(schema)
        both = {name: self.operand(schema, name)[0] for name in OPERANDS if getattr(self, name) is not None}
        for name, other in both.items():
            there, value = value.expr.is_not_null(), _where(other.expr.is_not_null(), value)
            yield name, _where(there, other)
        yield "value", value
        if self.by_name.widened == "sum" and may_outgrow(dtype):
            yield from ((part, Value(expr, value.dtype, None)) for part, expr in halves(value.expr, dtype).items())
        if self.order_by is not None:
            if self.order_by not in schema:
                raise StageError(f"no column {self.order_by!r}.{near(self.order_by, schema)}", key="order_by")
            ordered = Value(pl.col(self.order_by), schema[self.order_by], None)
            yield "order", _where(value.expr.is_not_null(), ordered)

    def operand(self, schema: pl.Schema, name: str = "of") -> tuple[Value, pl.DataType]:
        """The values of an operand that count, and their type before they are widened."""
        text = getattr(self, name)
        value, function = self._given(text, schema), self.by_name
        if problem := _unfit(function.needs, value.dtype):
            raise StageError(f"{self.function}({text}) needs {problem}", key="" if name == "of" else name)
        if not function.widened:
            return value, value.dtype
        wide = sum_type(value.dtype) if function.widened == "sum" else pl.Float64()
        return Value(value.expr.cast(wide), wide, value.infinite), value.dtype

    def _given(self, text: str | None, schema: pl.Schema) -> Value:
        """A column by its name, whatever it is; else the expression."""
        condition = None
        if self.where is not None:
            with under("where"):
                condition = check_condition(self.where, schema)
        if text is None or text not in schema:
            value_of(text := "1" if text is None else text, schema)  # whose errors are not of `where`
            return value_of(text, schema, self.where)
        value = Value(pl.col(text), schema[text], None)
        return value if condition is None else _where(condition.expr, value, condition.infinite)


def _where(condition: pl.Expr, value: Value, infinite: pl.Expr | None = None) -> Value:
    return Value(pl.when(condition).then(value.expr).otherwise(None), value.dtype, infinite if value.infinite is None else value.infinite)


def _unfit(needs: str, dtype: pl.DataType) -> str:
    """Why values of a type are not what a function needs; nothing where they are."""
    if needs == "numbers" and not (dtype.is_numeric() or dtype == pl.Boolean):
        return f"numbers, and that is {dtype}. Cast it, or count it."
    if needs == "a condition" and dtype != pl.Boolean:
        return f"a condition, true or false, and that is {dtype}. Compare it with something, as in x > 0."
    if needs == "an order" and dtype.is_nested():
        return f"values that have an order, and that is {dtype}. Take a field of it, or explode it before."
    return ""
