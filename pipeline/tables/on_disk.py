"""Tables beyond memory: held on disk, and exchanged by pieces on disk, of which a task has few at a time in memory.

The same tasks as between workers, but that a part is cut in the task that makes it, and pieces are read in the task that needs them: what
goes between tasks is where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import getitem
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.tables.budget import Size
from pipeline.tables.exchange import buckets_of
from pipeline.tables.laid import Cut, Laid, cut, joined, lay
from pipeline.tables.part import Part
from pipeline.tables.steps import Step

if TYPE_CHECKING:
    from pipeline.tables.table import Table

EVEN = 12  # what numbers of pieces are multiples of, so that two, three, four or six parts have as many each


def held(table: Table) -> tuple[Step, ...]:
    """The parts, each computed once and laid on disk, where who reads them scans them; those that lie there already as they are."""
    made = [block if block.kind == "scan" else table.session.evaluate_into(block, lay, folder_of(table)) for block in table.blocks]
    laid = [one for one in made if not isinstance(one, Step)]
    if laid:
        noted(table, laid)
    return tuple(one if isinstance(one, Step) else Step("scan", table.stage, source=one) for one in made)


def held_with(table: Table, function: Callable[[Part], Any]) -> tuple[tuple[Step, ...], list[Any]]:
    """As `held`, every part laid down anew, and futures of what a function makes of each in the task that makes it."""
    session, folder = table.session, folder_of(table)
    both = [session.evaluate_into(block, _laid_with, function, folder) for block in table.blocks]
    laid, found = ([session.submit(getitem, each, place, stage=table.stage, on_host=True) for each in both] for place in range(2))
    noted(table, laid)
    return tuple(Step("scan", table.stage, source=one) for one in laid), found


def shuffled(table: Table, by: Sequence[str], parts: int, hot: pl.DataFrame | None = None) -> tuple[Table, Any]:
    """As `Table.shuffled`, and a future of what was cut, part by part."""
    cuts = cut_up(table, _hashed, list(by), parts, hot)
    blocks = tuple(Step("part", table.stage, (), joined, (cuts, [number]), number) for number in range(parts))
    spread = () if hot is not None else tuple(by)
    return replace(table, blocks=blocks, origins=(), spread=spread, name=None, as_read=False), cuts


def settled(table: Table, by: Sequence[str]) -> Table:
    """As `Table.exchange`: in fewer parts where the rows turn out to take less than was thought. Waits for them to be cut."""
    parts = -(-table.buckets() // EVEN) * EVEN
    found, cuts = shuffled(table, by, parts)
    known: Sequence[Cut] = table.session.value(cuts)
    rows, held = sum(one.rows for one in known), sum(one.nbytes for one in known)
    size = Size(rows, -(-held // max(1, rows)))
    assert table.session.budget is not None
    least = min(table.session.budget.pieces(size), parts)
    count = next(count for count in range(least, parts + 1) if parts % count == 0)  # a number's rest by it says in which a piece is
    blocks = tuple(Step("part", table.stage, (), joined, (cuts, range(at, parts, count)), (at, count)) for at in range(count))
    return replace(found, blocks=blocks, size=size)


def cut_up(table: Table, function: Any, *given: Any) -> Any:
    """A future of the parts as `function(Part, *given, folder, compiled)` cuts them, in their order; `compiled` as `cut` has it."""
    session, folder = table.session, folder_of(table)
    assert session.budget is not None
    cuts = [session.evaluate_into(block, function, *given, folder, session.budget.compiles) for block in table.blocks]
    noted(table, cuts)
    return session.submit(_together, cuts, stage=table.stage, on_host=True)


def noted(table: Table, parts: Sequence[Any]) -> None:
    """Have it known that these are on disk, and what they come to."""
    assert table.session.budget is not None
    table.session.budget.on_disk[table.stage] += len(parts)
    table.session.measure(table.name, table.stage, parts)


def folder_of(table: Table) -> str:
    """Where its pieces lie."""
    assert table.session.budget is not None
    return table.session.budget.folder


def _laid_with(part: Part, function: Callable[[Part], Any], folder: str) -> tuple[Laid, Any]:
    return lay(part, folder), function(part)


def _hashed(part: Part, by: list[str], parts: int, hot: pl.DataFrame | None, folder: str, compiled: bool) -> Cut:
    return cut(part, buckets_of(part.frame, by, parts, hot), parts, folder, compiled=compiled)


def _together(cuts: Sequence[Cut]) -> Sequence[Cut]:
    return cuts
