"""Joins and conditions as queries inside, where Polars' SQL would be slow, or take another table's column or rows.

It puts EXISTS before all else that WHERE asks, and finds the columns that EXISTS compares by their bare names, whatever table they are said
to be of. A query inside FROM hides the table of its name from all that follows, so each has a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.sql.queries.conditions import conditions

if TYPE_CHECKING:
    from sqlglot import exp


def moved(query: exp.Query) -> exp.Query:
    """The same query: what ON says of one table is asked of it first, and EXISTS of what joins and other conditions have left."""
    from sqlglot import exp
    from sqlglot.helper import name_sequence
    from sqlglot.optimizer.scope import traverse_scope

    named = name_sequence("_m_")
    for scope in traverse_scope(query):
        select = scope.expression
        if not isinstance(select, exp.Select) or not select.args.get("from_"):
            continue
        sources = [select.args["from_"], *(select.args.get("joins") or [])]
        columns: dict[str, list[exp.Column]] = {}
        for column in scope.columns:
            columns.setdefault(column.table, []).append(column)
        for source in sources:
            own = _of_one_side(source)
            if own:
                rows = exp.select("*").from_(source.this.copy()).where(*(part.copy() for part in own), copy=False)
                source.set("on", exp.and_(*(part for part in list(source.args["on"].flatten()) if part not in own), copy=False))
                source.set("this", rows.subquery(source.alias_or_name))
            if isinstance(source.this, exp.Subquery):
                columns = _renamed(source, columns, named())
        if not scope.external_columns and _asks_exists(select):
            _within(select, [column for found in columns.values() for column in found], named())
    return query


def _of_one_side(source: exp.Expr) -> list[exp.Expr]:
    """What ON says of the right table alone: of an inner join and of a left one it can be asked before, where more is asked of both."""
    from sqlglot import exp

    on = source.args.get("on")
    if (
        not isinstance(source, exp.Join)
        or not isinstance(on, exp.And)
        or source.side not in {"LEFT", ""}
        or source.kind not in {"INNER", "OUTER", ""}
    ):
        return []
    parts = list(on.flatten())
    own = [part for part in parts if {column.table for column in part.find_all(exp.Column)} == {source.alias_or_name}]
    return own if len(own) < len(parts) else []


def _renamed(source: exp.Expr, columns: dict[str, list[exp.Column]], name: str) -> dict[str, list[exp.Column]]:
    """The columns by their tables, one of which has another name now."""
    from sqlglot import exp

    mine = columns.get(source.alias_or_name, [])
    for column in mine:
        column.set("table", exp.to_identifier(name, quoted=True))
    old = source.alias_or_name
    source.this.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return {table: found for table, found in columns.items() if table != old} | {name: mine}


def _asks_exists(select: exp.Select) -> bool:
    """Whether WHERE asks EXISTS beside other conditions, or of joined rows."""
    from sqlglot import exp

    parts = conditions(select)
    return any(part.find(exp.Exists) for part in parts) and (len(parts) > 1 or bool(select.args.get("joins")))


def _within(select: exp.Select, columns: Iterable[exp.Column], name: str) -> None:
    """FROM, its joins and what WHERE asks without a query become a query inside, whose columns are named TABLE.COLUMN."""
    from sqlglot import exp

    parts = conditions(select)
    plain, joins = [part for part in parts if not part.find(exp.Query)], select.args.get("joins") or []
    inside = {id(column) for part in (*plain, *joins) for column in part.find_all(exp.Column)}
    wanted = [column for column in columns if id(column) not in inside]
    inner = exp.select(*(_told(table, column) for table, column in sorted({(column.table, column.name) for column in wanted})))
    inner = inner.from_(select.args["from_"].this).where(*plain, copy=False)
    inner.set("joins", joins)
    asked = [part for part in parts if part not in plain]
    select.set("where", exp.Where(this=exp.and_(*asked, copy=False)))
    select.set("from_", exp.From(this=inner.subquery(exp.to_identifier(name, quoted=True))))
    select.set("joins", [])
    for column in wanted:
        column.set("this", exp.to_identifier(f"{column.table}.{column.name}", quoted=True))
        column.set("table", exp.to_identifier(name, quoted=True))


def _told(table: str, column: str) -> exp.Expr:
    from sqlglot import exp

    return exp.alias_(exp.column(column, table, quoted=True), f"{table}.{column}", quoted=True)
