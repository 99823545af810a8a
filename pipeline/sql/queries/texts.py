"""Functions of texts that Polars' SQL answers otherwise than DuckDB where an argument is missing, 0, empty or a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError
from pipeline.sql.queries.filled import filled, is_stated
from pipeline.sql.queries.parsed import DIALECT

if TYPE_CHECKING:
    from sqlglot import exp

LEFT = "case when t is null or n is null then null else left(t, n) end"
RIGHT = "case when t is null or n is null then null when n >= length(t) then t else right(t, n) end"
PART = "case when n is null then null else substring(t, o, n) end"
PIECE = "case when o is null or n is null then null else split_part(t, o, n) end"
REPLACED = "case when t is null or n is null then null else replace(t, o, coalesce(n, '')) end"
PLACE = """case when t is null or o is null then null when o = '' then 1 when split_part(t, o, 1) = t then 0
else length(split_part(t, o, 1)) + 1 end"""


def left_of(node: exp.Expr) -> exp.Expr | None:
    """left(t, n) of a number from a column, or of 0."""
    return None if is_stated(node.expression) else filled(LEFT, t=node.this, n=node.expression)


def right_of(node: exp.Expr) -> exp.Expr | None:
    """right(t, n), likewise: of more characters than there are Polars leaves some out."""
    from sqlglot import exp

    ends = isinstance(node.expression, exp.Neg) or node.expression.name == "1"
    return None if is_stated(node.expression) and ends else filled(RIGHT, t=node.this, n=node.expression)


def part_of(node: exp.Expr) -> exp.Expr | None:
    """substr(t, 2, n) of a number from a column."""
    length = node.args.get("length")
    return None if length is None or is_stated(length) else filled(PART, t=node.this, o=node.args["start"], n=length)


def replaced(node: exp.Expr) -> exp.Expr | None:
    """replace(t, a, b): nothing is replaced where a is empty."""
    from sqlglot import exp

    old, new = node.expression, node.args.get("replacement") or exp.Literal.string("")
    if not isinstance(old, exp.Literal):
        raise ExpressionError(f"{node.sql(DIALECT)}: replace replaces one text, in quotes, for all rows")
    text: exp.Expr = node.this.copy()
    if not old.name:
        return text
    return None if isinstance(new, exp.Literal) else filled(REPLACED, t=node.this, o=old, n=new)


def place(node: exp.Expr) -> exp.Expr:
    """strpos(t, a) in characters, where Polars counts bytes, and of a column for what it is, where Polars takes a regular expression."""
    return filled(PLACE, t=node.this, o=node.args["substr"])


def piece(node: exp.Expr) -> exp.Expr | None:
    """split_part(t, by, n) by a column."""
    by, part = node.args["delimiter"], node.args["part_index"]
    return None if is_stated(by) and is_stated(part) else filled(PIECE, t=node.this, o=by, n=part)


def trimmed(node: exp.Expr) -> None:
    """trim(t) takes off blanks alone; Polars' takes off all white space."""
    from sqlglot import exp

    if node.args.get("expression") is None:
        node.set("expression", exp.Literal.string(" "))
