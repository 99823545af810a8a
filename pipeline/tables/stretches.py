"""More parts of a table that has few: for a stage that makes wide rows of narrow ones, or many of one, and has work for all processors."""

from __future__ import annotations

from dataclasses import replace

from pipeline.tables.budget import Size
from pipeline.tables.part import Part
from pipeline.tables.steps import Step
from pipeline.tables.table import Table


def divided(table: Table, parts: int) -> Table:
    """The same rows in order, in so many parts at least: each part in stretches of about as many rows, some of which may have none.

    A table of no rows that is there already, as a plan has it, stays as it is.
    """
    count = -(-parts // len(table.blocks))
    if count <= 1 or all(isinstance(block.source, Part) and block.source.rows == 0 for block in table.blocks):
        return table
    held = table.hold().blocks
    blocks = [Step("part", table.stage, (block,), _stretch, (number, count), (number, count)) for block in held for number in range(count)]
    return replace(table, blocks=tuple(blocks), origins=(), spread=(), name=None)


def for_more_rows(table: Table, size: Size | None) -> Table:
    """The table in so many parts that a task has room for what is made of one, where a table of that size, beyond memory, comes of all."""
    budget = table.session.budget
    if budget is None or size is None or table.axes or budget.holds(size):
        return table
    return divided(table, max(2, budget.pieces(size)))


def _stretch(part: Part, number: int, count: int) -> Part:
    """One of so many stretches of a part's rows; the first has what was counted of them all."""
    first, last = (part.rows * at // count for at in (number, number + 1))
    arrays = {name: array[first:last] for name, array in part.arrays.items()}
    return Part(part.frame[first:last], arrays, {} if number else part.counts)
