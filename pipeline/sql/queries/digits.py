"""Digits behind the point of what stands in a query, and whether it became a float on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import ExpressionError
from pipeline.sql.queries.parsed import DIALECT
from pipeline.sql.queries.typed import FLOATS, float_type, kind_of

if TYPE_CHECKING:
    from sqlglot import exp


def scale_in(query: Any, name: str) -> int:
    """Digits behind the point of a result of a query inside, or of the members of a UNION."""
    return max(map(scale_of, found_in(query, name)))


def found_in(query: Any, name: str) -> list[exp.Expr]:
    """What gives a result of a query inside, or of each member of a UNION."""
    from sqlglot import exp

    if isinstance(query, exp.SetOperation):
        members: list[Any] = [query.left.unnest(), query.right.unnest()]
        place = query.named_selects.index(name)
        return [found for member in members for found in found_in(member, member.named_selects[place])]
    return [select for select in query.selects if select.alias_or_name == name]


def _one(query: Any) -> exp.Expr:
    """The result of a query that has one."""
    found: exp.Expr = query.selects[0]
    return found


def scale_of(node: exp.Expr) -> int:
    """Digits behind the point: of a decimal, of a literal as it is written, none of integers. Raises ExpressionError where nobody knows."""
    from sqlglot import exp

    if isinstance(node, exp.Literal):
        return len(node.name.partition(".")[2])
    if kind_of(node) != "DECIMAL":
        return 0
    if isinstance(node, exp.Column | exp.Cast | exp.Add | exp.Sub | exp.Mul):
        return int(node.type.expressions[1].name) if node.type is not None and len(node.type.expressions) == 2 else 3
    found = branches(node)
    if found is None:
        raise ExpressionError(f"nobody knows how many digits {node.sql(DIALECT)} has. Cast it, as in cast(x as decimal(18, 2))")
    return max(map(scale_of, found))


def branches(node: exp.Expr) -> list[exp.Expr] | None:
    """What a node takes its value from, so its type too; None of one that makes a value of its own."""
    from sqlglot import exp

    if isinstance(node, exp.Case):
        return [branch.args["true"] for branch in node.args["ifs"]] + [default for default in [node.args.get("default")] if default]
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Subquery):
        return [_one(node.unnest())]
    if isinstance(node, exp.Sum):
        return [added(node)]
    if isinstance(node, exp.Paren | exp.Alias | exp.Min | exp.Max | exp.Neg | exp.Abs | exp.Nullif | exp.Window | exp.Filter):
        return [node.this]
    return None


def floats_told(node: exp.Expr) -> None:
    """A sum, a choice and the like of what has become a float is one, though a decimal was made of decimals before."""
    if kind_of(node) == "DECIMAL" and any(kind_of(branch) in FLOATS for branch in branches(node) or ()):
        node.type = float_type()


def added(node: exp.Sum | exp.Avg) -> exp.Expr:
    """What is added up, each value once where it says DISTINCT."""
    from sqlglot import exp

    found: exp.Expr = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    return found
