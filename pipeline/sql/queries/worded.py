"""Functions by the names that Polars' SQL has for them. Their nodes are exchanged: a compiled sqlglot has no dialects of one's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp

GRAMMAR = "postgres"  # the nearest to Polars' SQL


def worded(query: exp.Query) -> str:
    """The query, which is changed, as the text for Polars' SQL."""
    for node in [node for node in query.walk() if type(node) in _words()][::-1]:
        node.replace(_words()[type(node)](node))
    return query.sql(GRAMMAR, copy=False)


@cache
def _words() -> dict[type[exp.Expr], Callable[[Any], exp.Expr]]:
    """What each function is exchanged for."""
    from sqlglot import exp

    dates = {exp.Hour: "HOUR", exp.Minute: "MINUTE", exp.Second: "SECOND", exp.Quarter: "QUARTER", exp.WeekOfYear: "WEEK", exp.Week: "WEEK"}
    days = {exp.DayOfYear: "DOY", exp.DayOfWeek: "DOW", exp.DayOfWeekIso: "ISODOW"}
    named = {exp.Round: ("ROUND", "decimals"), exp.Median: ("MEDIAN",), exp.PercentileCont: ("QUANTILE_CONT", "expression")}
    return {
        **{kind: partial(_called, name=name, others=others) for kind, (name, *others) in named.items()},
        **{kind: partial(_part, name=name) for kind, name in {**dates, **days}.items()},
        exp.Log: _logarithm,
        exp.TryCast: _tried,
    }


def _called(node: exp.Expr, name: str, others: list[str]) -> exp.Expr:
    """The function `name` of its value and of the other arguments that are given."""
    from sqlglot import exp

    arguments = [node.this, *(node.args[key] for key in others if node.args.get(key))]
    return exp.Anonymous(this=name, expressions=arguments)


def _part(node: exp.Expr, name: str) -> exp.Expr:
    """A part of a date, by EXTRACT."""
    from sqlglot import exp

    return exp.Extract(this=exp.var(name), expression=node.this)


def _logarithm(node: exp.Expr) -> exp.Expr:
    """DuckDB's log(base, x), and log(x) to the base 10: Polars has the base behind."""
    from sqlglot import exp

    base, value = (node.this, node.expression) if node.expression else (exp.Literal.number(10), node.this)
    short = {"10": "LOG10", "2": "LOG2"}.get(base.name if isinstance(base, exp.Literal) else "")
    return exp.Anonymous(this=short or "LOG", expressions=[value] if short else [value, base])


def _tried(node: exp.Expr) -> exp.Expr:
    """TRY_CAST(x AS type), which Postgres lacks."""
    from sqlglot import exp

    return exp.Anonymous(this="TRY_CAST", expressions=[exp.Alias(this=node.this, alias=exp.var(node.args["to"].sql(GRAMMAR)))])
