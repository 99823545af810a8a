"""How much of its workers' time a run leaves unused, and how much of that while tasks wait at other workers.

A task that begins to wait is moved by Dask at its next look, a tenth of a second later at the most, and what it reads is sent: that much is
the price of sending tasks to where their data are. What waits from one look of ours (a fifth of a second) to the next is what Dask does
not move, since that would take longer than it does: tasks of less than a thousandth of a second behind a long one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline.running.progress import Threads


@dataclass
class Idleness:
    """What was seen in looks at the workers' threads; a look stands for the time since the one before."""

    clock: Callable[[], float] = time.monotonic
    all: float = field(default=0.0, init=False)  # seconds of threads
    idle: float = field(default=0.0, init=False)
    while_others_wait: float = field(default=0.0, init=False)
    while_others_keep_waiting: float = field(default=0.0, init=False)
    _last: float | None = field(default=None, init=False)
    _wasted: int = field(default=0, init=False)

    def look(self, threads: Threads) -> None:
        """Add what is seen now."""
        now = self.clock()
        passed, self._last = now - (now if self._last is None else self._last), now
        self.all += threads.all * passed
        self.idle += threads.idle * passed
        wasted, before = min(threads.idle, threads.waiting), self._wasted
        self.while_others_wait += wasted * passed
        self.while_others_keep_waiting += min(wasted, before) * passed
        self._wasted = wasted

    def document(self) -> dict[str, float]:
        """For run.json: the share of the threads' time without a task, and the part of it in which a task waited at another worker:
        at one look at least, and at two in a row."""
        if not self.all:
            return {}
        seen = {"share": self.idle, "while_tasks_wait": self.while_others_wait, "while_tasks_keep_waiting": self.while_others_keep_waiting}
        return {name: round(seconds / self.all, 4) for name, seconds in seen.items()}
