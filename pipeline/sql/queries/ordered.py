"""Rows of a query in one order, whatever engine and however many threads run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def made_ordered(query: exp.Query) -> exp.Query:
    """The query whose rows that tie, or are in no order, stand by all their values; one that only picks rows of a table keeps their order.

    So does every query inside that takes the first of its rows: LIMIT says which.
    """
    from sqlglot import exp

    for inner in list(query.find_all(exp.Query)):
        if inner.args.get("limit") is not None or inner.args.get("offset") is not None or (inner is query and inner.args.get("order")):
            _order(inner)
    if query.args.get("order") is None and not _picks(query):
        _order(query)
    return query


def _order(query: exp.Query) -> None:
    """Order by what it says, and where that ties by every result, missing ones last."""
    from sqlglot import exp

    if isinstance(query, exp.Subquery):
        return
    keys = query.args["order"].expressions if query.args.get("order") else []
    said = {key.this.name for key in keys if isinstance(key.this, exp.Column) and not key.this.table}
    places = [place for place, name in enumerate(query.named_selects, start=1) if name not in said]
    others = [exp.Ordered(this=exp.Literal.number(place), desc=False, nulls_first=False) for place in places]
    query.set("order", exp.Order(expressions=[*(key.copy() for key in keys), *others]))


def _picks(query: exp.Query) -> bool:
    """Whether it only picks rows of one table."""
    from sqlglot import exp

    whole = ("joins", "group", "distinct", "with_", "having", "qualify")
    if not isinstance(query, exp.Select) or any(query.args.get(key) for key in whole):
        return False
    table = query.args.get("from_")
    asks = any(found.args.get("query") for found in query.find_all(exp.In))
    return (
        table is not None
        and isinstance(table.this, exp.Table)
        and not asks
        and all(found is query for found in query.find_all(exp.AggFunc, exp.Window, exp.Query))
    )
