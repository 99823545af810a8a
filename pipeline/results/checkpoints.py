"""Where a long training stands, kept while it goes on: one that was killed goes on from there.

    PLACE/checkpoints/KEY    where one training stood last, in a format of its own; the former file until the new one is whole

KEY is a digest of all that the training depends on, so one that has changed begins anew. A run that is published removes them all
(results/publish.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pipeline.results.at_url import Store
from pipeline.results.full import on_disk_of

FOLDER = "checkpoints"
LEAST_S = 0.25  # between two times of keeping: what takes less than that is sooner done again
SHARE = 20  # and so many times as long as keeping took


@dataclass(frozen=True)
class Checkpoint:
    """The file of one training in a results folder; tasks take it with them, wherever they see that folder."""

    store: Store
    key: str

    def last(self) -> bytes | None:
        """What was kept last; None where nothing was."""
        try:
            return self.store.read(f"{FOLDER}/{self.key}")
        except FileNotFoundError:
            return None

    def forget(self) -> None:
        """Remove what was kept."""
        self.store.remove(f"{FOLDER}/{self.key}")

    def keep(self, content: bytes) -> None:
        """Keep this instead. It is whole on the disk when this returns. Raises RunError where that is full."""
        with on_disk_of(self.store.path(FOLDER)):
            self.store.make(FOLDER)
            self.store.write_durably(f"{FOLDER}/{self.key}", content)


class Place(Protocol):
    """Where something is kept."""

    def last(self) -> bytes | None:
        """What was kept last; None where nothing was."""
        ...

    def keep(self, content: bytes) -> None:
        """Keep this instead."""
        ...


class Keeping:
    """Keeps where a training stands now and then, so that it takes a twentieth of the time at most; where there is no place, never."""

    def __init__(self, place: Place | None) -> None:
        self._place, self._next = place, time.monotonic() + LEAST_S

    def last(self) -> bytes | None:
        """What was kept last; None where nothing was."""
        return None if self._place is None else self._place.last()

    def due(self) -> bool:
        """Whether it is time to keep."""
        return self._place is not None and time.monotonic() >= self._next

    def keep(self, content: Callable[[], bytes]) -> None:
        """Keep what this makes."""
        assert self._place is not None
        started = time.monotonic()
        self._place.keep(content())
        ended = time.monotonic()
        self._next = ended + max(LEAST_S, SHARE * (ended - started))
