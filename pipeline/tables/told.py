"""What a stage can tell of its columns where it is no query, which Polars could be asked about."""

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
