"""Tables whose tasks run on a pool of threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED
from contextlib import contextmanager
from typing import Any

from pipeline.backend.devices import Backend
from pipeline.errors import RunError
from pipeline.tables.keys import task_key
from pipeline.tables.pool import Pool, Promise, promises
from pipeline.tables.priority import priority
from pipeline.tables.session import ClusterSession
from pipeline.tables.task import LOOK_S, run_task


class PoolSession(ClusterSession):
    """What a session of a cluster of one worker is, on threads: tasks, keys and the order of parts are the same."""

    client: Pool

    def __init__(self, pool: Pool, backend: Backend, *, lean: bool = False) -> None:
        super().__init__(pool, backend, 1, pool.threads, lean=lean)

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str, on_host: bool = False) -> Any:
        """Submit the function as one task; returns what it promises."""
        self.submitted[stage] += 1
        key, urgency = task_key(stage, function, self.submitted[stage]), priority(self.depth, function, arguments, ahead=False)
        return self.client.submit(key, run_task, stage, function, *arguments, priority=urgency)

    def is_future(self, value: Any) -> bool:
        """Whether a value is a task's promise."""
        return isinstance(value, Promise)

    def value(self, future: Any) -> Any:
        """What a task gives, waited for."""
        while self.client.rest(list(promises(future)), LOOK_S):
            self.look()
        return self.client.gather(future)

    def values(self, results: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The values of what was submitted as they come. Raises the error of a task that failed; the others are then given up."""
        left = dict(enumerate(results))
        try:
            while left:
                self.client.rest(list(left.values()), LOOK_S, until=FIRST_COMPLETED)
                for number in [number for number, promise in left.items() if promise.status != "pending"]:
                    yield number, self._value(left.pop(number))
                self.look()
        finally:
            self.client.cancel(list(left.values()))

    @contextmanager
    def fixed_workers(self, stage: str) -> Iterator[None]:
        """No worker comes or goes."""
        yield

    def _value(self, promise: Promise) -> Any:
        if promise.status == "cancelled":
            raise RunError("a task was given up. Run again.")
        return promise.result()
