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


def check_grouped(query: exp.Query, dialect: str) -> None:
    """Raise ExpressionError for a column beside an aggregate of all rows, and for windows over groups: Polars answers both, wrongly."""
    from sqlglot import exp

    for select in query.find_all(exp.Select):
        found = _outer(select)
        windows = [node for node in found if isinstance(node, exp.Window)]
        if windows and (select.args.get("group") or any(node.find_ancestor(exp.AggFunc) for node in windows[0].find_all(exp.AggFunc))):
            raise ExpressionError(
                f"{windows[0].sql(dialect)} is a window over groups. Group in a query within FROM, and take the window of that"
            )
        tables = {source.alias_or_name for source in _sources(select)}
        aggregates = [node for node in found if isinstance(node, exp.AggFunc | exp.Filter)]
        columns = [node for node in found if isinstance(node, exp.Column) and node.table in tables]
        if aggregates and columns and not select.args.get("group"):
            one, other = aggregates[0].sql(dialect), columns[0].sql(dialect)
            raise ExpressionError(f"{other} has a value a row, and {one} beside it one in all. Add GROUP BY, or {one} over ()")


def _outer(select: exp.Select) -> list[exp.Expr]:
    """What the results, HAVING and ORDER BY of a query are made of, down to its aggregates, windows and the queries inside."""
    from sqlglot import exp

    ends = exp.Query | exp.AggFunc | exp.Window | exp.Filter
    parts = [*select.selects, *(select.args[key] for key in ("having", "qualify", "order") if select.args.get(key))]
    return [node for part in parts for node in part.walk(prune=lambda node: isinstance(node, ends))]


def _sources(select: exp.Select) -> list[exp.Expr]:
    """The tables of FROM and its joins."""
    first = select.args.get("from_")
    return [source.this for source in ([first] if first else []) + (select.args.get("joins") or [])]


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
    if window.find(exp.Corr, exp.CovarSamp, exp.CovarPop, exp.PercentileCont):
        return " has other answers in Polars. Aggregate by the keys, and join that"
    return ""


def _from_the_first(node: exp.Substring) -> bool:
    """Whether a part of a text begins at a stated character, from 1 on."""
    from sqlglot import exp

    start = node.args.get("start")
    return start is None or (isinstance(start, exp.Literal) and start.name != "0")
