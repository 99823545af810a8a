"""What expressions have and Polars' SQL lacks (regexp_replace, strftime, at time zone), worked out on the tables before the query runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.expression import value_of

if TYPE_CHECKING:
    from sqlglot import exp

Made = Mapping[str, Mapping[str, str]]
"""Expressions by the names of their columns, by table."""


def beforehand(query: exp.Query, schemas: Mapping[str, pl.Schema], dialect: str) -> dict[str, dict[str, str]]:
    """Put a column in the place of each such call in the typed query, and say what each is.

    Raises ExpressionError for a call on what is no table of `from`, or of what a query and an expression may answer otherwise.
    """
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    made: dict[str, dict[str, str]] = {}
    for scope in traverse_scope(query):
        for node in _calls(scope.expression):
            aliases = {column.table for column in node.find_all(exp.Column)}
            sources = [scope.sources.get(alias) for alias in aliases]
            if len(sources) != 1 or not isinstance(sources[0], exp.Table) or sources[0].name not in schemas:
                raise ExpressionError(f"{node.sql(dialect)} is worked out on rows of one table of `from`. Use a stage derive before")
            _check_plain(node, dialect)
            table, text = sources[0].name, _expression(node, dialect)
            value_of(text, schemas[table])
            columns = made.setdefault(table, {})
            name = next((known for known, other in columns.items() if other == text), f"_made_{table}_{len(columns)}")
            columns[name] = text
            node.replace(exp.column(name, aliases.pop(), quoted=True))
    return made


def with_made(frame: pl.LazyFrame, made: Mapping[str, str]) -> pl.LazyFrame:
    """The table with these columns."""
    schema = frame.collect_schema()
    return frame.with_columns(value_of(text, schema).expr.alias(name) for name, text in made.items()) if made else frame


def _calls(query: exp.Expr) -> list[exp.Expr]:
    """The outermost calls of a query, without those of queries inside."""
    from sqlglot import exp

    kinds = exp.RegexpReplace | exp.RegexpExtract | exp.TimeToStr | exp.StrToTime | exp.AtTimeZone
    found: list[exp.Expr] = []
    waiting: list[exp.Expr] = list(query.iter_expressions())
    while waiting:
        node = waiting.pop(0)
        cut = isinstance(node, exp.TimestampTrunc | exp.DateTrunc) and (node.find(exp.AtTimeZone) or _is_zoned(node.this))
        if isinstance(node, kinds) or cut:
            found.append(node)
        elif not isinstance(node, exp.Query):
            waiting.extend(node.iter_expressions())
    return found


def _is_zoned(node: exp.Expr) -> bool:
    return node.type is not None and str(node.type.this.value) == "TIMESTAMPTZ"


def _check_plain(node: exp.Expr, dialect: str) -> None:
    from sqlglot import exp

    own = exp.RegexpReplace | exp.RegexpExtract | exp.TimeToStr | exp.StrToTime | exp.AtTimeZone | exp.TimestampTrunc | exp.DateTrunc
    plain = exp.Column | exp.Identifier | exp.Literal | exp.Null | exp.Var | exp.Neg | exp.Lower | exp.Upper | exp.Cast | exp.DataType
    for inner in node.walk():
        if not isinstance(inner, own | plain | exp.DataTypeParam | exp.Paren):
            raise ExpressionError(f"{node.sql(dialect)} holds {inner.sql(dialect)}. Work that out in a stage derive before")


def _expression(node: exp.Expr, dialect: str) -> str:
    from sqlglot import exp

    copied = node.copy()
    for column in list(copied.find_all(exp.Column)):
        column.set("table", None)
    return str(copied.sql(dialect))
