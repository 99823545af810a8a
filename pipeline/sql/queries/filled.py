"""Expressions of a query written as SQL with names for what goes into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def filled(text: str, **nodes: exp.Expr) -> exp.Expr:
    """An expression in brackets, whose names are those nodes."""
    from sqlglot import exp, parse_one

    whole: exp.Expr = exp.paren(parse_one(text, read="duckdb"), copy=False)
    for column in list(whole.find_all(exp.Column)):
        column.replace(nodes[column.name].copy())
    return whole


def is_stated(node: exp.Expr | None) -> bool:
    """Whether a number or text stands there as it is, and is neither 0 nor empty."""
    from sqlglot import exp

    node = node.this if isinstance(node, exp.Neg) else node
    return isinstance(node, exp.Literal) and node.name not in {"", "0"}
