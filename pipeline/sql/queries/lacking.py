"""Functions that Polars' SQL lacks, or answers otherwise than DuckDB, by those that it has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError, near
from pipeline.sql.queries.parsed import DIALECT

if TYPE_CHECKING:
    from sqlglot import exp

MICROSECONDS = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
DAYS = {
    "day": "{day}",
    "week": "{day} - extract(isodow from d) + 1",
    "month": "{day} - extract(day from d) + 1",
    "quarter": "{year} + case extract(quarter from d) when 1 then 0 when 2 then 90 + {leap} when 3 then 181 + {leap} else 273 + {leap} end",
    "year": "{year}",
}
WORDS = {
    "day": "cast(d as int)",
    "year": "cast(d as int) - extract(doy from d) + 1",
    "leap": "case when {y} % 4 = 0 and ({y} % 100 <> 0 or {y} % 400 = 0) then 1 else 0 end".format(y="extract(year from d)"),
}


def made_up_for(query: exp.Query) -> exp.Query:
    """The typed query with what Polars' SQL takes, and answers as SQL does; computed keys of GROUP BY go by their places.

    Raises ExpressionError for a part that date_trunc does not have, and for what is no date or timestamp without a zone.
    """
    from sqlglot import exp

    for node in list(
        query.find_all(exp.TimestampTrunc, exp.DateTrunc, exp.Nullif, exp.Is, exp.Corr, exp.CovarSamp, exp.CovarPop, exp.PercentileCont)
    )[::-1]:
        if isinstance(node, exp.Is):
            _known(node)
        elif isinstance(node, exp.AggFunc):
            _one_row(node)
        elif not isinstance(node, exp.Nullif):
            node.replace(_truncated(node))
        elif node.this.find(exp.Query):  # Polars' own names the subquery twice
            same = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
            node.replace(exp.Case().when(same, exp.null()).else_(node.this.copy()))
    for select in query.find_all(exp.Select):
        _keys_of_groups(select)
        _by_place(select)
    return query


def _known(node: exp.Is) -> None:
    """IS TRUE and IS FALSE are true or false of a missing value, too; Polars' are missing."""
    from sqlglot import exp

    if isinstance(node.expression, exp.Boolean):
        other = exp.Coalesce(this=node.this.copy(), expressions=[exp.Boolean(this=not node.expression.this)])
        node.replace(other if node.expression.this else exp.Not(this=other))


def _one_row(node: exp.AggFunc) -> None:
    """An aggregate of a whole table that Polars' SQL does not know for one: it would stand beside every row."""
    from sqlglot import exp

    select = node.find_ancestor(exp.Select)
    if select is not None and not select.args.get("group") and not node.find_ancestor(exp.Window):
        node.replace(exp.Max(this=node.copy()))


def _truncated(node: exp.Expr) -> exp.Expr:
    """The beginning of the step, by whole days, or by microseconds."""
    from sqlglot import exp, parse_one

    part = node.args["unit"].name.lower()
    value: exp.Expr = node.this
    kind = str(value.type.this.value) if value.type is not None else ""
    if part not in {*DAYS, *MICROSECONDS}:
        raise ExpressionError(f"date_trunc has no part {part!r}.{near(part, [*MICROSECONDS, *DAYS])}")
    if kind not in {"DATE", "TIMESTAMP", "TIMESTAMPNTZ"}:
        raise ExpressionError(f"{node.sql(DIALECT)} takes a date, or a timestamp without a zone. Cast it, as in cast(x as timestamp)")
    if part in DAYS:
        text = DAYS[part].format(**WORDS)
        found = f"cast({text} as date)" if kind == "DATE" else f"cast(cast({text} as date) as timestamp)"
        day: exp.Expr = exp.Cast(this=value.copy(), to=exp.DataType.build("DATE"))
    elif kind == "DATE":
        return value.copy()
    else:
        found = f"cast(cast(d as bigint) - cast(d as bigint) % {MICROSECONDS[part]} as timestamp)"  # Polars' % is never below 0 here
        day = exp.Cast(this=value.copy(), to=exp.DataType.build("TIMESTAMP"))
    whole: exp.Expr = parse_one(found, read="duckdb")
    for column in list(whole.find_all(exp.Column)):
        column.replace(day.copy())
    return whole


def _keys_of_groups(select: exp.Select) -> None:
    """A key of GROUP BY beside an aggregate, in one result, as the least of its group: Polars' SQL makes a list of the group's rows."""
    from sqlglot import exp

    group, having = select.args.get("group"), select.args.get("having")
    keys = [key for key in group.expressions if not isinstance(key, exp.Literal)] if group else []
    for result in [*(found.unalias() for found in select.selects), *([having.this] if having else [])]:
        if isinstance(result, exp.AggFunc) or not result.find(exp.AggFunc):
            continue
        for node in list(result.walk(prune=partial(_ends_or_is, keys))):
            if node in keys:
                least = exp.Min(this=node.copy())
                least.type = node.type
                node.replace(least)


def _ends_or_is(keys: list[exp.Expr], node: exp.Expr) -> bool:
    """Whether a node is one of these, or its inside is of single rows, or of another query."""
    from sqlglot import exp

    return isinstance(node, exp.AggFunc | exp.Query) or node in keys


def _by_place(select: exp.Select) -> None:
    """GROUP BY's computed keys as numbers of the results that they are: Polars names two of one column alike."""
    from sqlglot import exp

    group = select.args.get("group")
    results = [result.unalias() for result in select.selects]
    for key in list(group.expressions) if group else []:
        if not isinstance(key, exp.Column | exp.Literal) and key in results:
            key.replace(exp.Literal.number(results.index(key) + 1))
