"""What Polars' SQL answers otherwise than DuckDB, or by the order of rows, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError

if TYPE_CHECKING:
    from sqlglot import exp

TEXTS = {"VARCHAR", "TEXT"}
NUMBERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"}


def check_answers(query: exp.Query, dialect: str) -> None:
    """Raise ExpressionError for such windows and functions, with what to write in their place."""
    from sqlglot import exp

    for window in query.find_all(exp.Window):
        if problem := _problem(window):
            raise ExpressionError(f"{window.sql(dialect)}{problem}")
    for kind, remedy in (
        (exp.DateDiff, "has other answers in Polars. Subtract: b - a of dates are days"),
        (exp.Quantile, "has other answers in Polars. Write quantile_cont, which lies between two values"),
        (exp.Substring, "counts from 1, by a number. For characters at the end write right(x, n)"),
    ):
        for node in query.find_all(kind):
            if not (isinstance(node, exp.Substring) and _from_the_first(node)):
                raise ExpressionError(f"{node.sql(dialect)} {remedy}")
    for every in query.find_all(exp.All, exp.Any):
        if every.this.find(exp.Query):
            raise ExpressionError(
                f"{every.sql(dialect)}: compare with the greatest or the least value, max(y) or min(y) of it, or write IN"
            )


def check_compared(node: exp.Binary) -> None:
    """Raise ExpressionError for a typed comparison of a text with a number, which Polars refuses when rows come."""
    kinds = {str(side.type.this.value) if side.type is not None else "" for side in (node.left, node.right)}
    if kinds & TEXTS and kinds & NUMBERS:
        raise ExpressionError(f"{node.sql('duckdb')} compares text with a number. Cast one of them, as in cast(x as double)")


def _problem(window: exp.Window) -> str:
    """What is wrong with a window; '' where nothing is."""
    from sqlglot import exp

    if window.args.get("order") is not None:
        return ": a window with an order has other answers in Polars where there are nulls. Use the stage window"
    if window.find(exp.RowNumber, exp.FirstValue, exp.LastValue, exp.NthValue, exp.Lag, exp.Lead, exp.Ntile):
        return " depends on the order in which rows come. Use the stage window, which has an order"
    if window.find(exp.Corr, exp.CovarSamp, exp.CovarPop):
        return " has other answers in Polars. Aggregate by the keys, and join that"
    return ""


def _from_the_first(node: exp.Substring) -> bool:
    """Whether a part of a text begins at a stated character, from 1 on."""
    from sqlglot import exp

    start = node.args.get("start")
    return start is None or (isinstance(start, exp.Literal) and start.name != "0")
