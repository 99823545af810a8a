"""What Polars' SQL lacks taken apart into what it has: correlated subqueries, commas before joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import ExpressionError
from pipeline.sql.queries.conditions import conditions
from pipeline.sql.queries.implied import picks, with_implied
from pipeline.sql.queries.narrowed import narrow
from pipeline.sql.queries.parsed import DIALECT

if TYPE_CHECKING:
    from sqlglot import exp


def taken_apart(query: exp.Query) -> exp.Query:
    """The same query for Polars. Raises ExpressionError for a correlated subquery that cannot be written as a join."""
    _decorrelate(query)
    _write_joins(query)
    return query


def _decorrelate(query: exp.Query) -> None:
    """Every subquery that reads its outer query's columns becomes a join; EXISTS stays, Polars has it."""
    from sqlglot import exp
    from sqlglot.helper import name_sequence
    from sqlglot.optimizer.scope import traverse_scope
    from sqlglot.optimizer.unnest_subqueries import decorrelate

    named = name_sequence("_u_")
    for scope in traverse_scope(query):
        inner, outer = scope.expression, scope.expression.parent_select
        if isinstance(inner, exp.Select) and scope.external_columns and outer is not None and not _is_asked(inner):
            if not (isinstance(inner.parent, exp.In) or inner.selects[0].find(exp.AggFunc)):  # of several values it would take the greatest
                raise ExpressionError(_refused(inner))
            apart: Any = decorrelate
            apart(inner, outer, scope.external_columns, named)
            narrow(outer, named)
    for scope in traverse_scope(query):
        if (scope.external_columns and not _is_asked(scope.expression)) or scope.expression.find(exp.ArrayAgg):
            raise ExpressionError(_refused(scope.expression))


def _refused(inner: exp.Expr) -> str:
    return (
        f"the subquery ({inner.sql(DIALECT)}) reads columns of the query around it other than by equalities that end in one value. "
        "Write it as a join of an aggregate, or in two stages"
    )


def _is_asked(inner: exp.Expr) -> bool:
    """Whether a subquery stands in EXISTS."""
    from sqlglot import exp

    return isinstance(inner.parent, exp.Exists)


def _write_joins(query: exp.Query) -> None:
    """Tables behind commas become joins on the equalities of WHERE, in an order in which there are some, else cross joins.

    Of those that equalities tie to what is there, the first of which few rows are asked comes first, else the first.

    A comma binds weaker than JOIN: `from a, b left join c on a.x = c.x` has no a where c is joined. Behind crosses it is there.
    """
    from sqlglot import exp

    for select in query.find_all(exp.Select):
        joins = select.args.get("joins") or []
        commas = [join for join in joins if not (any(join.args.get(key) for key in ("on", "using", "side", "kind", "method")))]
        if not commas or any(join.side in {"RIGHT", "FULL"} for join in joins) or any(isinstance(join.this, exp.Lateral) for join in joins):
            for join in commas:
                join.set("kind", "CROSS")
            continue
        asked = with_implied(conditions(select))
        there, placed, few = {select.args["from_"].alias_or_name}, [], {picks(part) for part in asked}
        while commas:
            join, shared = _next(sorted(commas, key=lambda join: join.alias_or_name not in few), asked, there)
            commas.remove(join)
            there.add(join.alias_or_name)
            asked = [part for part in asked if part not in shared]
            join.set("on", exp.and_(*shared)) if shared else join.set("kind", "CROSS")
            placed.append(join)
        select.set("joins", [*placed, *(join for join in joins if join not in placed)])
        select.set("where", exp.Where(this=exp.and_(*asked)) if asked else None)


def _next(commas: list[exp.Join], asked: list[exp.Expr], there: set[str]) -> tuple[exp.Join, list[exp.Expr]]:
    """The first table that equalities tie to those that are there, with these; else the first of all."""
    from sqlglot import exp

    for join in commas:
        shared: list[exp.Expr] = [
            part
            for part in asked
            if isinstance(part, exp.EQ)
            and isinstance(part.left, exp.Column)
            and isinstance(part.right, exp.Column)
            and join.alias_or_name in (names := {part.left.table, part.right.table})
            and len(names) == 2
            and names - {join.alias_or_name} <= there
        ]
        if shared:
            return join, shared
    return commas[0], []
