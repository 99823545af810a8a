"""The SQL expressions of filter and derive: Polars' own parser, our checks, one meaning on CPU and GPU.

Polars parses the text, which `sql.text` has read before; `sql.checker` checks its tree and changes it. Values that would be lost in silence
(an overflow, a cast that does not fit) fail the run, and infinities are null: `sql.checks`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import polars as pl
from pydantic import AfterValidator

from pipeline.errors import ExpressionError, near
from pipeline.sql.checker import Checker
from pipeline.sql.checks import Problem, lowered
from pipeline.sql.kinds import family
from pipeline.sql.scaled import is_for_a_cpu
from pipeline.sql.spelling import NO_TABLE
from pipeline.sql.text import FUNCTIONS, Function, checked_text
from pipeline.sql.tree import NULL, from_tree, integer, polars_errors, to_tree, where_else

__all__ = ["FUNCTIONS", "Function", "Value", "check_condition", "check_filter", "check_value", "finite", "value_of"]

KEPT = 512  # expressions that a process remembers, with the columns that they were checked for


class Written(str):
    """The text of an expression, which is one whatever the names of columns are."""

    __slots__ = ()

    def meaning(self) -> Any:
        """The tree that it is read as, which is all that its values depend on; the text itself where that is none."""
        try:
            return to_tree(checked_text(self))
        except ExpressionError:
            return str(self)


Sql = Annotated[str, AfterValidator(Written)]
"""A parameter that is such a text. What may be a column's name as well is none: a name can look like an expression."""


class Value(NamedTuple):
    """An expression that was checked: what computes it, its type, and in which rows it met an infinity (None: in none)."""

    expr: pl.Expr
    dtype: pl.DataType
    infinite: pl.Expr | None

    @property
    def roots(self) -> list[str]:
        """The columns that it is computed from, each once."""
        both = (expr for expr in (self.expr, self.infinite) if expr is not None)
        return list(dict.fromkeys(name for expr in both for name in expr.meta.root_names()))


def check_filter(text: str, schema: pl.Schema) -> pl.Expr:
    """The expression of a condition on rows of that schema; raises ExpressionError where it is wrong or no condition."""
    return check_condition(text, schema).expr


def check_condition(text: str, schema: pl.Schema) -> Value:
    """The same, with the rows in which it met an infinity."""
    value = value_of(text, schema)
    if value.dtype != pl.Boolean:
        problem = f"a filter needs a condition, true or false, and this is {value.dtype}: compare it with something, as in `x > 0`"
        raise ExpressionError(problem)
    return value


def check_value(text: str, schema: pl.Schema) -> tuple[pl.Expr, pl.DataType]:
    """The expression of a value on rows of that schema, and its type; raises ExpressionError."""
    return value_of(text, schema)[:2]


def value_of(text: str, schema: pl.Schema, where: str | None = None) -> Value:
    """The same, with the rows in which it met an infinity; null in the rows for which `where` is not true, and worked out for no other.

    It is remembered, as every part of a table asks for it.
    """
    return _value(text, where, tuple(schema.items()), is_for_a_cpu())


@lru_cache(KEPT)
def _value(text: str, where: str | None, columns: tuple[tuple[str, pl.DataType], ...], on_a_cpu: bool) -> Value:
    schema = pl.Schema(columns)
    tree = to_tree(checked_text(text))
    if where is not None:
        tree = where_else(to_tree(checked_text(where)), tree, NULL)
    missing = [name for name in from_tree(tree).meta.root_names() if name not in schema]
    if missing:
        table = f" {NO_TABLE}." if re.search(rf"""(?<![\w."]){re.escape(missing[0])}"?\s*\.""", text) else ""
        raise ExpressionError(f"there is no column {missing[0]!r}.{near(missing[0], schema)}{table}")
    checked = integer(Checker(schema).node(tree))
    expr, infinite = lowered(checked, on_a_cpu=on_a_cpu)
    one_row = pl.DataFrame({name: pl.Series([None], dtype=dtype) for name, dtype in schema.items()} or {"": [None]})
    try:
        with polars_errors():
            dtype = one_row.clear().lazy().select(value=expr).collect().schema["value"]
            one_row.lazy().select(value=expr).collect()
    except ExpressionError as error:
        if problem := Problem.found(str(error.__cause__)):
            raise ExpressionError(f"it fails in every row: {problem}") from None
        raise
    if family(dtype) not in {"number", "text", "condition", "date", "duration", "List(String)"}:
        raise ExpressionError(f"its type is {dtype}, which no derived column can have: cast it to a number, text, boolean or date")
    return Value(expr if "Counted" in checked else finite(expr, dtype), dtype, infinite)


def finite(expr: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The expression with null for NaN and infinities, where its type is a float: null is the only missing value in a table."""
    return pl.when(expr.is_finite()).then(expr).otherwise(None) if dtype.is_float() else expr
