"""Tables of files as these have them: for stages that refuse NaN and infinities themselves, in all of some columns.

Every reader makes null of them by an expression a column, and of thousands of columns a query of Polars takes as long by their number
squared: 1.3 s for two million numbers in 5,000 columns, which are read in 0.2 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import polars as pl

from pipeline.sql.expression import finite
from pipeline.tables.part import Part
from pipeline.tables.sources import Explains, Placed, Range
from pipeline.tables.steps import Source, Step
from pipeline.tables.table import Table


@runtime_checkable
class Plain(Source, Protocol):
    """A source that can be had as its files are, NaN and infinities among the numbers."""

    def plain(self) -> pl.LazyFrame | Part:
        """What `load` gives, without its null for what is not finite."""


@dataclass(frozen=True)
class AsItIs:
    """A source whose `columns` have what the files have, and all others null for NaN and infinities."""

    source: Plain
    columns: tuple[str, ...]

    @property
    def cheap(self) -> bool:
        """As the source is."""
        return self.source.cheap

    def load(self) -> pl.LazyFrame | Part:
        """The scan, or a part where the source gives one."""
        rows = self.source.plain()
        if isinstance(rows, Part):
            return replace(rows, held=self._finite(rows.frame.lazy()).collect())
        return self._finite(rows)

    def _finite(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with null for NaN and infinities of all columns but its own."""
        left = set(self.columns)
        others = [name for name, dtype in rows.collect_schema().items() if dtype.is_float() and name not in left]
        return rows.with_columns(finite(pl.col(name), pl.Float64()).alias(name) for name in others) if others else rows

    def interval(self, column: str) -> tuple[Any, Any] | None:
        """As the source knows it."""
        return self.source.interval(column)

    def places(self) -> Sequence[Range]:
        """As the source knows them."""
        return self.source.places() if isinstance(self.source, Placed) else []

    def explain(self) -> str | None:
        """What the source says."""
        return self.source.explain() if isinstance(self.source, Explains) else None


def as_in_files(table: Table, columns: Iterable[str]) -> Table:
    """The table, in which these columns have NaN and infinities where its parts are read from files that have them."""
    return replace(table, blocks=tuple(_plain(block, tuple(columns)) for block in table.blocks))


def _plain(step: Step, columns: tuple[str, ...]) -> Step:
    if step.kind == "concat":
        return replace(step, inputs=tuple(_plain(child, columns) for child in step.inputs))
    return replace(step, source=AsItIs(step.source, columns)) if step.kind == "read" and isinstance(step.source, Plain) else step
