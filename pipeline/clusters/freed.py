"""Workers near their limit give back what nobody uses: the allocator keeps it, and Dask counts it.

Dask has a worker above 80 % of its memory start nothing more until there is room. What is free within the process it can neither use nor
spill: after training on three million loans a worker of 600 MB stood still with 530, 125 of them free, and the others had all the work.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from pipeline.backend.glibc import give_back, stays_now

NEAR = 0.5
EVERY_MS = 500
REST = 20
"""Times as long as it took, to which the worker's loop has nothing of it: of a heap of very many pieces it takes a while."""


@dataclass
class Freed:
    """What a worker of a limit gives back."""

    limit: int
    next: float = 0.0

    def look(self, memory: int) -> None:
        """Give back where it has so much, unless a training wants what it freed again, or it was done just now."""
        began = time.monotonic()
        if memory > NEAR * self.limit and began >= self.next and not stays_now():
            give_back()
            ended = time.monotonic()
            self.next = ended + REST * (ended - began)


def give_back_what_is_freed(worker: Any) -> None:
    """Have a worker that has a limit look now and then how near it is."""
    from tornado.ioloop import PeriodicCallback

    limit = worker.memory_manager.memory_limit
    if limit:
        freed = Freed(limit)
        look = PeriodicCallback(lambda: freed.look(worker.monitor.get_process_memory()), EVERY_MS)
        worker.periodic_callbacks["pipeline-freed"] = look  # the worker ends it with its own
        look.start()
