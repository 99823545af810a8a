"""Groups that are more than a task may hold: rows in order, in several parts one behind the other, and what is at the ends of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from pipeline.stages.relational._ordered.groups import Ties
from pipeline.tables.names import Order
from pipeline.tables.on_disk import held_with
from pipeline.tables.ordering import in_order
from pipeline.tables.part import Part
from pipeline.tables.reduced import together
from pipeline.tables.steps import Step
from pipeline.tables.table import Table


def in_parts(rows: Table, by: tuple[str, ...], order: Order, ties: Ties, edge: Callable[[Part], list[Any]]) -> tuple[Table, Any]:
    """The rows in the order of their groups and then in theirs, and a future of a list with what `edge` says of each part.

    Rows that tie follow by all other columns, unless ties are refused. Waits for the rows to be cut.
    """
    assert rows.schema is not None
    named = Order(by).then(order)
    others = [name for name, dtype in rows.schema.columns.items() if name not in named.names and not dtype.is_nested()]
    ordered = in_order(rows, named.then(others if ties == "columns" else ()))
    if ordered.is_beyond:  # what is wanted of a part is found where it is made: it is read from disk once less
        blocks, found = held_with(ordered, edge)
        return replace(ordered, blocks=blocks), together(ordered, _one_after_another, found)
    ordered = ordered.hold()
    return ordered, ordered.reduce(edge, _one_after_another)


def each_part(ordered: Table, function: Callable[..., pl.LazyFrame], *given: Any) -> Table:
    """`function(LazyFrame, *given, number=...)` of each part, by its number."""
    blocks = tuple(
        Step("frame", ordered.stage, (block,), partial(function, number=number), given, whole="order")
        for number, block in enumerate(ordered.blocks)
    )
    return replace(ordered, blocks=blocks, schema=None, written=None, spread=(), unique=(), name=None, as_read=False)


def _one_after_another(found: list[list[Any]]) -> list[Any]:
    return [one for some in found for one in some]
