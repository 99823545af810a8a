"""What was measured of a computed table: its rows, bytes and parts, and what its tasks counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline.tables.part import added_counts


class Counted(Protocol):
    """A part, wherever it lies: in memory, or on disk."""

    @property
    def rows(self) -> int:
        """Its rows."""

    @property
    def nbytes(self) -> int:
        """Its bytes in memory."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What was counted on the way to it."""


@dataclass(frozen=True)
class Measured:
    """Rows, bytes and number of parts of a computed table, and what was counted on the way to it."""

    rows: int
    bytes: int
    parts: int
    counts: Mapping[str, int]

    @staticmethod
    def of(*parts: Counted) -> Measured:
        """The sums over some parts."""
        rows, size = sum(part.rows for part in parts), sum(part.nbytes for part in parts)
        return Measured(rows, size, len(parts), added_counts([part.counts for part in parts]))

    @staticmethod
    def sum(pieces: Sequence[Measured]) -> Measured:
        """The sums over what was measured piece by piece."""
        rows, size, parts = (sum(getattr(piece, name) for piece in pieces) for name in ("rows", "bytes", "parts"))
        return Measured(rows, size, parts, added_counts([piece.counts for piece in pieces]))
