"""Sources that are read below one another as one: a file's stretches by one scan, which Polars reads on all threads.

Of scans of one file below one another it sees that they have one in common, reads the whole file and holds it for them (docs/platform.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import polars as pl

if TYPE_CHECKING:
    from pipeline.tables.steps import Step


@runtime_checkable
class Joins(Protocol):
    """A source whose rows and those of others after it can be read as one."""

    def joined(self, others: Sequence[Any]) -> Any:
        """That source; None where they cannot be."""


@dataclass(frozen=True)
class Picked:
    """Rows with some columns alone, and about how many bytes each has then."""

    names: tuple[str, ...]
    row_bytes: int

    def __call__(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Those columns."""
        return rows.select(self.names)


def as_one(steps: Sequence[Step]) -> Step | None:
    """Trees of the columns of one table's parts as one of all parts; None of any others, which may count something by what is read."""
    first, *others = steps
    if first.kind == "read":
        joins = isinstance(first.source, Joins) and all(other.stage == first.stage for other in others)
        source = first.source.joined([other.source for other in others]) if joins else None
        return None if source is None else replace(first, source=source)
    if not isinstance(first.function, Picked) or any(step.function != first.function for step in others):
        return None
    below = as_one([step.inputs[0] for step in steps])
    return None if below is None else replace(first, inputs=(below,))
