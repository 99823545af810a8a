"""Rows that go between workers come out as many as went in: counted where they lie, compared in one small task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.errors import RunError
from pipeline.tables.measured import Measured
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session


def watch(session: Session, stage: str, what: str, before: Sequence[Any], after: Sequence[Any]) -> None:
    """Have the run stop where `after`, parts, have other rows in all than `before`, the pieces (with their rows) that they were made of."""
    if isinstance(session, ClusterSession):
        ins = [session.submit(_of_pieces, pieces, stage=stage) for pieces in before]
        outs = [session.submit(_height, part, stage=stage) for part in after]
        session.accounts.append((None, session.submit(compared, what, ins, outs, stage=stage)))


def compared(what: str, before: Sequence[int], after: Sequence[int]) -> Measured:
    """Nothing to be noted. Raises RunError where the sums differ."""
    if sum(before) != sum(after):
        raise RunError(f"{what}: {sum(before):,} rows went in and {sum(after):,} came out. Nothing was published. Please report this.")
    return Measured(0, 0, 0, {})


def _of_pieces(pieces: Sequence[tuple[int, Part]]) -> int:
    return sum(rows for rows, _ in pieces)


def _height(part: Part) -> int:
    return part.rows
