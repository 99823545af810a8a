"""What a stage can tell of itself: of its columns where it is no query, which Polars could be asked about, and of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from pipeline.tables.part import Schema

Origin = tuple[str, str]
"""A role of a stage, and a column of the table that it is given."""


@runtime_checkable
class TellsOrigins(Protocol):
    """A stage that knows where its columns come from."""

    def origins(self, schemas: Mapping[str, Schema]) -> tuple[Mapping[str, Sequence[Origin]], Sequence[Origin]]:
        """The columns that each of the stage's own is made of, and those that say which rows there are, by these schemas."""


@runtime_checkable
class TellsWorkers(Protocol):
    """A stage that may want workers which know of one another."""

    @property
    def over_workers(self) -> bool:
        """Whether it does."""
