"""Queries over all rows of large tables, one after the other: nobody knows before what each of them holds, and each has all threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from pipeline.tables.budget import Size
from pipeline.tables.part import Part
from pipeline.tables.table import Table

TWICE = 2  # tables of more than half of what a query may have are too large for two queries at once


def query_in_turn(tables: Sequence[Table], function: Callable[..., pl.LazyFrame], *small: object) -> Table:
    """As `Table.query`, with one more argument of `function`, which says nothing; begun when the large one before it is over."""
    first, *others = tables
    session = first.session
    sizes = [table.size.bytes for table in tables if table.size is not None]
    if session.budget is None or session.budget.holds(Size(TWICE * sum(sizes), 1)):
        return first.query(others, function, *small, None)
    found = first.query(others, function, *small, session.over).hold()
    session.over = session.submit(_over, *found.futures(), stage=first.stage)
    return found


def _over(_: Part) -> None:
    """What tells the next one to begin."""
