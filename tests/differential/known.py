"""What is known of a table within a chain of stages, and a stage said in SQL on it.

Numbers that were computed in floats differ in their last digits from DuckDB's, so nothing is ordered, compared or joined by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from hypothesis import strategies as st

from pipeline.stage import Stage
from tests.differential.tables import some


@dataclass(frozen=True)
class Known:
    """A table of a chain: its name and columns, those that tell its rows apart, and those whose values are as they were drawn."""

    name: str
    schema: pl.Schema
    unique: tuple[str, ...]
    drawn: frozenset[str]
    joined: bool = False
    ordered_by: str = ""  # the column by which its files are cut, so that their footers say that keys of parts are others

    def of(self, *kinds: Any) -> list[str]:
        """The columns of these types."""
        return [name for name, dtype in self.schema.items() if dtype.base_type() in kinds]

    @property
    def exact(self) -> list[str]:
        """The columns that equal DuckDB's to the last digit."""
        return [name for name, dtype in self.schema.items() if not dtype.is_float() or name in self.drawn]

    @property
    def keys(self) -> list[str]:
        """The columns that rows are grouped and joined by: not the one that tells them all apart."""
        alone = self.unique if len(self.unique) == 1 else ()
        return [name for name in self.of(pl.Int64, pl.Int32, pl.Int8, pl.String, pl.Boolean, pl.Date) if name not in alone]

    def some_keys(self, among: Sequence[str]) -> st.SearchStrategy[list[str]]:
        """One or two of those columns, often the one that the files are cut by."""
        any_of = some(among, most=2)
        return st.one_of(any_of, *[st.just([self.ordered_by])] * 7) if self.ordered_by in among else any_of


@dataclass(frozen=True)
class Said:
    """A stage, the tables that it reads, its SQL, and what is known of the table that it makes, but for its name and columns."""

    stage: Stage
    reads: dict[str, str]
    sql: str
    known: Known


Linked = Callable[[Known, Sequence[Known]], st.SearchStrategy[Said] | None]
