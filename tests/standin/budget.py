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


@dataclass
class Spending:
    """What a stretch of work asked of the device, once it is over."""

    before: int
    """Bytes alive when it began."""
    counts: Counts

    def beyond(self, most: Budget) -> str:
        """What was asked for beyond a budget, with the dearest lines; empty where nothing was."""
        asked = Budget(self.counts.launches, self.counts.waits, round((self.counts.peak - self.before) / MIB, 1))
        over = [name for name in ("launches", "waits", "mib") if getattr(asked, name) > getattr(most, name)]
        return f"{' and '.join(over)}: {asked}, and at most {most}. It asked most in\n{self.counts.dearest()}" if over else ""


@contextmanager
def spending() -> Iterator[Spending]:
    """Have the block's work counted."""
    before = held.alive
    with measured() as found:
        yield Spending(before, found)
