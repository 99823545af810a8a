"""The table of an input's bad rows, and what finds them; it is the same whatever the parts."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import polars as pl

from pipeline.tables.part import Part, Schema

QUARANTINED = pl.Schema({"text": pl.String(), "reason": pl.String(), "file": pl.String(), "line": pl.Int64()})
"""Columns of INPUT.quarantined: the row as it stands in its file, why it is none, and where it begins."""

TABLE = "quarantined"
SCHEMA = Schema(QUARANTINED)


@runtime_checkable
class Sieve(Protocol):
    """A source of which bad rows are taken aside."""

    def sifted(self) -> tuple[pl.DataFrame, int]:
        """Its bad rows, as QUARANTINED has them, and how many rows it has with them."""


@runtime_checkable
class Sifts(Protocol):
    """An input that may take bad rows aside, and how many it allows: a count, or a share where it is a float."""

    max_bad_rows: int | float | None

    @property
    def sifts(self) -> bool:
        """Whether it does."""


def sift(sieve: Sieve) -> tuple[Part, int]:
    """A task: the bad rows of a piece as a part, and how many rows there are with them."""
    bad, rows = sieve.sifted()
    return Part(bad), rows
