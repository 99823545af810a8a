"""The arguments of functions of our own: how many there are, and what must stand there as it is."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.errors import ExpressionError
from pipeline.sql.kinds import family
from pipeline.sql.tree import Node, shown


def need_arguments(form: str, nodes: Sequence[Node], least: int, most: int | None = None) -> None:
    """Raise ExpressionError unless there are so many arguments; `form` shows how the function is written."""
    if not least <= len(nodes) <= (most or least):
        raise ExpressionError(f"{form.partition('(')[0]}() has {len(nodes)} arguments: write {form}")


def stated_text(node: Node, what: str) -> str:
    """A text that stands in the expression; ExpressionError for a column, or anything that is worked out."""
    match node:
        case {"Literal": {"Scalar": {"String": str(text)}}}:
            return text
    raise ExpressionError(f"{what} is a text in quotes that is the same for all rows, not {shown(node)}")


def stated_number(node: Node, what: str) -> int:
    """A whole number that stands in the expression; ExpressionError for anything else."""
    match node:
        case {"Literal": {"Dyn": {"Int": int(number)}}}:
            return number
    raise ExpressionError(f"{what} is a whole number that is the same for all rows, not {shown(node)}")


def need_text(node: Node, dtype: pl.DataType) -> None:
    """Raise ExpressionError for what is no text, null aside."""
    if family(dtype) not in {"text", "null"}:
        raise ExpressionError(f"a text is needed where {shown(node)} stands, which is {dtype}: cast it, as in cast(x as varchar)")
