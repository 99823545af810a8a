"""How much of its workers' time a run leaves unused, and how much of that while tasks wait: the second should be nothing."""

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
    _last: float | None = field(default=None, init=False)

    def look(self, threads: Threads) -> None:
        """Add what is seen now."""
        now = self.clock()
        passed, self._last = now - (now if self._last is None else self._last), now
        self.all += threads.all * passed
        self.idle += threads.idle * passed
        self.while_others_wait += min(threads.idle, threads.waiting) * passed

    def document(self) -> dict[str, float]:
        """For run.json: the share of the threads' time without a task, and the part of it in which a task waited at another worker."""
        if not self.all:
            return {}
        return {"share": round(self.idle / self.all, 4), "while_tasks_wait": round(self.while_others_wait / self.all, 4)}
