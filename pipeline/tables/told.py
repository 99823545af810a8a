"""What a stage can tell of itself: of its columns where it is no query, which Polars could be asked about, and of its tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
class TellsNeeds(Protocol):
    """A stage that knows which columns it can do without.

    It has one table that others read, its own, and gives the same rows and the same values of the columns that are wanted from tables
    which have the needed columns alone, in their order. One that its parameters name is needed, wanted or not: the stage looks for it.
    """

    def needs(self, schemas: Mapping[str, Schema], wanted: frozenset[str]) -> Mapping[str, Collection[str]]:
        """The columns that it needs in each role for those of its table that are wanted, by the whole schemas of the tables it reads."""


@runtime_checkable
class TellsWorkers(Protocol):
    """A stage that may want workers which know of one another."""

    @property
    def over_workers(self) -> bool:
        """Whether it does."""


@runtime_checkable
class TellsUnique(Protocol):
    """A stage whose table has no two rows alike in some columns."""

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """Columns of its table that together name a row."""


@runtime_checkable
class TellsRows(Protocol):
    """A stage whose table may have fewer rows than the largest that it reads, or more, as far as that can be known before it is there."""

    def most_rows(self, rows: Mapping[str, int], unique: Mapping[str, Collection[str]]) -> int | None:
        """The most rows it can have, by those of the tables in each role and the columns that name a row there; None: nobody knows."""
