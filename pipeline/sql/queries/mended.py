"""Functions that Polars' SQL answers otherwise than DuckDB, or does not have, by those that it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import ExpressionError
from pipeline.sql.queries import dates, texts
from pipeline.sql.queries.answered import TEXTS
from pipeline.sql.queries.digits import scale_of
from pipeline.sql.queries.filled import filled
from pipeline.sql.queries.parsed import DIALECT
from pipeline.sql.queries.typed import DIGITS, FLOATS, LONG, NARROW, as_type, kind_of

if TYPE_CHECKING:
    from sqlglot import exp

COVARIANCE = "case when count(case when x is not null then y end) > 1 then covar_samp(x, y) end"
VARIANCE = "case when count(x) = 1 then 0.0 else variance(x) * cast(count(x) - 1 as double) / cast(count(x) as double) end"
SPREAD = {"covarsamp": COVARIANCE, "variancepop": VARIANCE, "stddevpop": f"sqrt({VARIANCE})"}


def mended(query: exp.Query, *, wide: str = "INT128") -> exp.Query:
    """The typed query with these functions written otherwise; `wide` holds what outgrows 64 bits.

    Raises ExpressionError for what cannot be written otherwise.
    """
    from sqlglot import exp

    rules: dict[type[exp.Expr], Callable[..., exp.Expr | None]] = {
        exp.Left: texts.left_of,
        exp.Right: texts.right_of,
        exp.Substring: texts.part_of,
        exp.Replace: texts.replaced,
        exp.StrPosition: texts.place,
        exp.SplitPart: texts.piece,
        exp.Trim: texts.trimmed,
        exp.Extract: dates.extracted,
        exp.TimeToUnix: dates.epoch,
        exp.Date: dates.day,
        exp.Cast: dates.cast_to_text,
        exp.TryCast: _tried,
        exp.Abs: partial(_absolute, wide=wide),
        exp.Pow: _power,
        exp.LogicalAnd: partial(_renamed, kind=exp.Min),
        exp.LogicalOr: partial(_renamed, kind=exp.Max),
        **dict.fromkeys((exp.DPipe, exp.Concat, exp.ConcatWs), dates.joined),
        **dict.fromkeys((exp.Add, exp.Sub), dates.later),
        **dict.fromkeys((exp.CovarSamp, exp.VariancePop, exp.StddevPop), _spread),
        **dict.fromkeys((exp.Except, exp.Intersect), _alike),
        **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compared),
    }
    for node in list(query.walk())[::-1]:
        found = rules[type(node)](node) if type(node) in rules else None
        if found is not None:
            found.type = node.type
            _whole(node).replace(found)
    return query


def _whole(node: exp.Expr) -> exp.Expr:
    """An aggregate with its filter, its window, and what makes one row of it."""
    from sqlglot import exp

    around = exp.Window | exp.Filter | exp.Max
    return node.parent if node.key in SPREAD and isinstance(node.parent, around) and node.arg_key == "this" else node


def _renamed(node: exp.Expr, *, kind: type[exp.Expr]) -> exp.Expr:
    return kind(this=node.this.copy())


def _absolute(node: exp.Expr, *, wide: str) -> exp.Expr | None:
    """Of integers in more digits: the least one has no other sign in its own."""
    from sqlglot import exp

    kind = kind_of(node.this)
    if kind not in NARROW | {"BIGINT"}:
        return None
    return as_type(exp.Abs(this=as_type(node.this, "BIGINT" if kind in NARROW else wide)), "BIGINT")


def _power(node: exp.Expr) -> None:
    """A float: Polars' power of integers wraps round."""
    node.set("this", as_type(node.this, "DOUBLE"))
    node.set("expression", as_type(node.expression, "DOUBLE"))


def _spread(node: exp.Expr) -> exp.Expr:
    """An aggregate that is made of others, each of which has its filter or its window."""
    from sqlglot import exp

    values: dict[str, exp.Expr] = {"x": node.this} | ({"y": node.expression} if node.args.get("expression") else {})
    above: Any = node.parent
    if isinstance(above, exp.Filter):
        asked = above.expression.this
        values = {name: exp.Case().when(asked.copy(), value.copy()) for name, value in values.items()}
    found = filled(SPREAD[node.key], **values)
    for inner in list(found.find_all(exp.AggFunc)) if isinstance(above, exp.Window) else []:
        window = above.copy()
        inner.replace(window)
        window.set("this", inner)
    return found


def _compared(node: exp.Binary) -> None:
    """Two columns of numbers of several kinds, as one: a join takes no others."""
    from sqlglot import exp

    if isinstance(node.left, exp.Literal) or isinstance(node.right, exp.Literal):
        return
    kinds = (kind_of(node.left), kind_of(node.right))
    if not {*kinds} <= FLOATS | NARROW | LONG | {"DECIMAL"} or {*kinds} <= NARROW | LONG or kinds[0] == kinds[1] != "DECIMAL":
        return
    whole = not {*kinds} & FLOATS
    digits = max(scale_of(node.left), scale_of(node.right)) if whole else 0
    join = node.find_ancestor(exp.Join)
    if (node.find_ancestor(exp.Exists) or (join and join.kind in {"SEMI", "ANTI"})) and {*kinds} != {"DECIMAL"}:
        text = "Cast one side in a query inside, as in (select cast(x as double) as x from t)"
        names = " and ".join(side.name for side in (node.left, node.right) if side.name)
        raise ExpressionError(
            f"IN, EXISTS, SEMI and ANTI JOIN compare numbers of one kind, not {kinds[0]} with {kinds[1]} ({names}). {text}"
        )
    to = f"DECIMAL({DIGITS},{digits})" if whole else "DOUBLE"
    for key in ("this", "expression"):
        if kind_of(node.args[key]) != to:
            node.set(key, as_type(node.args[key], to))


def _alike(node: exp.SetOperation) -> None:
    """Raise ExpressionError for columns of several kinds of numbers, by which Polars joins what it compares."""
    sides: list[Any] = [node.left.unnest(), node.right.unnest()]
    for one, other in zip(sides[0].selects, sides[1].selects, strict=False):
        kinds = [kind_of(side.unalias()) for side in (one, other)]
        if FLOATS & {*kinds} and {*kinds} & (NARROW | LONG | {"DECIMAL"}):
            text = "has to compare numbers of one kind. Cast one of them, as in cast(x as double)"
            raise ExpressionError(f"{node.key.upper()} of {one.alias_or_name!r}, {kinds[0]} and {kinds[1]}, {text}")


def _tried(node: exp.TryCast) -> None:
    """Raise ExpressionError for a text as a condition, which Polars refuses when rows come."""
    if kind_of(node) == "BOOLEAN" and kind_of(node.this) in TEXTS:
        raise ExpressionError(f"{node.sql(DIALECT)}: a text is no condition. Compare it, as in x = 'true'")
