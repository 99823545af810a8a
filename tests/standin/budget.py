"""Budgets: what a stretch of work may ask of the device at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.standin.counts import Counts, held, measured

MIB = 1 << 20


@dataclass(frozen=True)
class Budget:
    """Launches, times that the host waits, and MiB alive at once beyond what was there before."""

    launches: int
    waits: int
    mib: float


@contextmanager
def budget(most: Budget) -> Iterator[Counts]:
    """Have the block's work counted. Raises AssertionError, with the dearest lines, where it asks for more than it may."""
    before = held.alive
    with measured() as found:
        yield found
    asked = Budget(found.launches, found.waits, round((found.peak - before) / MIB, 1))
    over = [name for name in ("launches", "waits", "mib") if getattr(asked, name) > getattr(most, name)]
    assert not over, f"{' and '.join(over)} beyond the budget: {asked}, and at most {most}. It asked most in\n{found.dearest()}"
