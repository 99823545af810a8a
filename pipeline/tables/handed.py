"""Parts as tasks are handed them: what lies on disk stays there, and is in memory as long as the task runs that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.tables.laid import Laid

if TYPE_CHECKING:
    from pipeline.tables.table import Table


def parts_of(table: Table) -> list[Any]:
    """As `Table.futures`, but of parts on disk where they lie: for tasks that read what they are handed (`here`)."""
    if all(block.kind == "scan" for block in table.blocks):
        return [block.source for block in table.blocks]
    return table.futures()


def here(part: Any) -> Any:
    """A part that may lie on disk, in memory."""
    return part.read() if isinstance(part, Laid) else part
