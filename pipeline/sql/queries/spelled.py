"""The same query in words that both engines have: cuDF lacks LIKE, IN of a query and date arithmetic as Polars writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def spelled(query: exp.Query) -> exp.Query:
    """Dates that are known worked out, LIKE by what its pattern says, and IN of a query as EXISTS."""
    from sqlglot import exp

    for node in list(query.find_all(exp.Add, exp.Sub, exp.Like)):
        if isinstance(node, exp.Like):
            _spell_like(node)
        elif node.find(exp.Interval) and node.parent and not node.find(exp.Column):
            _work_out(node)
    for inside in list(query.find_all(exp.In))[::-1]:
        _spell_in(inside)
    return query


def _work_out(node: exp.Expr) -> None:
    """A date or timestamp of known parts, as it is."""
    from sqlglot.optimizer.simplify import simplify

    node.replace(simplify(node.copy(), dialect="duckdb"))


def _spell_like(node: exp.Like) -> None:
    """LIKE 'a%' is starts_with, '%a' ends_with and '%a%' a place in the text; any other pattern stays."""
    from sqlglot import exp

    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or not (isinstance(pattern, exp.Literal) and pattern.is_string):
        return
    if "\\" in pattern.name:
        return
    words = pattern.name.split("%") if "_" not in pattern.name else []
    match words:
        case [word, ""] if word:
            found: exp.Expr = exp.func("STARTS_WITH", node.this.copy(), exp.Literal.string(word))
        case ["", word] if word:
            found = exp.func("ENDS_WITH", node.this.copy(), exp.Literal.string(word))
        case ["", word, ""] if word:
            found = exp.func("REGEXP_LIKE", node.this.copy(), exp.Literal.string(re.escape(word)))
        case _:  # cuDF's regular expressions have no flags, and their '.' no ends of lines
            marks = {"%": r"[\s\S]*", "_": r"[\s\S]"}
            whole = "".join(marks.get(letter, re.escape(letter)) for letter in pattern.name)
            found = exp.func("REGEXP_LIKE", node.this.copy(), exp.Literal.string(f"^{whole}$"))
    node.replace(exp.Not(this=found) if node.args.get("negate") else found)


def _spell_in(node: exp.In) -> None:
    """`x in (select y ...)`, where WHERE demands it, is a semi join; `x not in` the rest, where neither x nor any y is missing."""
    from sqlglot import exp

    inner = node.args.get("query")
    asked = node.parent if isinstance(node.parent, exp.Not) else node
    above = asked.parent
    while isinstance(above, exp.And | exp.Paren):
        above = above.parent
    if inner is None or not isinstance(above, exp.Where) or not isinstance(node.this, exp.Column):
        return
    rows = inner.unnest().copy()
    name = f"_in_{id(node)}"
    value = exp.column(rows.named_selects[0], table=name, quoted=True)
    value.type = rows.selects[0].type
    same = exp.Exists(this=exp.select("1").from_(rows.subquery(name)).where(exp.EQ(this=value, expression=node.this.copy())))
    if asked is node:
        node.replace(same)
        return
    count = exp.select("count(*)").from_(rows.subquery(name))
    none, missing = (
        exp.EQ(this=found.subquery(), expression=exp.Literal.number(0)) for found in (count, count.where(value.is_(exp.null())))
    )
    known = exp.paren(exp.or_(exp.Not(this=node.this.copy().is_(exp.null())), none))
    asked.replace(exp.paren(exp.and_(exp.Not(this=same), missing, known)))
