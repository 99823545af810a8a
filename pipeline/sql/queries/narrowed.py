"""The aggregate that a correlated subquery becomes, of the keys alone that the query around it can ask for.

`where p.brand = 'x' and l.quantity < (select avg(quantity) from lines where part = p.part)` wants the mean of few parts: the rows of the
aggregate are joined with the parts of that brand first. (Magic sets: Mumick, Finkelstein, Pirahesh & Ramakrishnan, SIGMOD 1990.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline.sql.queries.conditions import conditions

if TYPE_CHECKING:
    from sqlglot import exp


def narrow(outer: exp.Select, named: Callable[[], str]) -> None:
    """Join the aggregate, which `outer` is joined with last, with the keys of each table of which `outer` asks something by itself."""
    from sqlglot import exp

    join = (outer.args.get("joins") or [None])[-1]
    if not isinstance(join, exp.Join) or not join.args.get("on") or not isinstance(join.this, exp.Subquery):
        return
    inner = join.this.this
    sources = {source.alias_or_name: source.this for source in (outer.args["from_"], *(outer.args.get("joins") or []))}
    keys = {found.alias: found.unalias() for found in inner.selects if isinstance(found, exp.Alias)}
    for part in list(join.args["on"].flatten()) if isinstance(join.args["on"], exp.And) else [join.args["on"]]:
        sides = (part.left, part.right) if isinstance(part, exp.EQ) else ()
        mine = [keys.get(side.name) for side in sides if isinstance(side, exp.Column) and side.table == join.alias_or_name]
        theirs = [side for side in sides if isinstance(side, exp.Column) and side.table != join.alias_or_name]
        if len(mine) != 1 or len(theirs) != 1 or not isinstance(mine[0], exp.Column):
            continue
        source, asked = sources.get(theirs[0].table), _asked(outer, theirs[0].table)
        if isinstance(source, exp.Table) and asked:
            name = named()
            rows = exp.select(exp.alias_(theirs[0].copy(), name, quoted=True)).distinct().from_(source.copy()).where(*asked)
            inner.join(rows.subquery(name), on=exp.EQ(this=exp.column(name, name, quoted=True), expression=mine[0].copy()), copy=False)


def _asked(select: exp.Select, table: str) -> list[exp.Expr]:
    """Copies of what WHERE asks of a table alone."""
    from sqlglot import exp

    own = [part for part in conditions(select) if {column.table for column in part.find_all(exp.Column)} == {table}]
    return [part.copy() for part in own if not part.find(exp.Query)]
