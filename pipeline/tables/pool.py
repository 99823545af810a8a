"""Threads of this process for runs of little data, which a cluster of Dask would take longer to start for than to work on.

A `Pool` answers what a run asks of a client of Dask, and its promises have the states of Dask's futures. It spills nothing and moves
nothing: a run that may want any of these gets a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from queue import PriorityQueue
from threading import Lock, Thread, local
from typing import Any

from pipeline.tables.keys import prefix_of

HERE = "this process"

_this_thread = local()


class Promise(Future[Any]):
    """What a task gives, or will give."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.given_up = False  # for a task that runs, which looks now and then
        self.said: dict[str, Any] | None = None  # the last round of a long one
        self.needed_by: list[_Task] = []

    @property
    def status(self) -> str:
        """As of Dask's futures: pending, finished, error or cancelled."""
        if self.given_up or self.cancelled():
            return "cancelled"
        if not self.done():
            return "pending"
        error = self.exception()
        return "finished" if error is None else "cancelled" if isinstance(error, CancelledError) else "error"


@dataclass
class _Task:
    """A function with its arguments, how urgent it is, how many of the promises among these are still to come, and what it gives."""

    promise: Promise
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    priority: float
    lacks: int = 0


@dataclass
class Seen:
    """What was seen of a stage's tasks: how many there are, how many are done, and the seconds that these took."""

    tasks: int = 0
    done: int = 0
    seconds: float = 0.0


@dataclass
class Pool:
    """So many threads, which begin the tasks for which all is there: of the greatest priority first, and of equal ones as they came."""

    threads: int
    status: str = "running"
    seen: dict[str, Seen] = field(default_factory=dict)  # by the prefixes of tasks' keys
    running: dict[str, Promise] = field(default_factory=dict)  # by their keys
    stream: list[dict[str, Any]] = field(default_factory=list)  # when tasks ran, as Dask tells it

    def __post_init__(self) -> None:
        self._lock, self._numbers = Lock(), count()
        self._ready = PriorityQueue[tuple[float, int, _Task | None]]()  # what is least comes first
        for _ in range(self.threads):
            Thread(target=self._work, name="pipeline-task", daemon=True).start()

    def submit(self, key: str, function: Callable[..., Any], *arguments: Any, priority: float = 0.0) -> Promise:
        """What the function will give of the arguments: promises among them, in lists, tuples and mappings too, are kept by then."""
        task = _Task(Promise(key), function, arguments, priority)
        with self._lock:
            self.seen.setdefault(prefix_of(key), Seen()).tasks += 1
            for promise in promises(arguments):
                if not promise.done():
                    promise.needed_by.append(task)
                    task.lacks += 1
            ready = not task.lacks
        if ready:
            self._begin(task)
        return task.promise

    def gather(self, values: Any) -> Any:
        """The values in place of promises. Raises what a task raised, CancelledError for one that was given up."""
        return _kept(values)

    def cancel(self, given: Sequence[Promise], *, force: bool = True) -> None:
        """Give tasks up: those that have not begun never will, and those that run are told."""
        for promise in given:
            if promise.cancel():
                self._tell(promise)
            promise.given_up = not promise.done()

    def rest(self, awaited: Sequence[Promise], seconds: float, *, until: str = "ALL_COMPLETED") -> bool:
        """Wait until all are done, or so long; whether some are not."""
        return bool(wait_for(awaited, seconds, until).not_done)

    def run(self, function: Callable[[], Any], **_: Any) -> dict[str, Any]:
        """What a function gives on every worker: here."""
        return {HERE: function()}

    def get_task_stream(self, *, start: float = 0.0, **_: Any) -> list[dict[str, Any]]:
        """When the tasks ran that have begun since a time."""
        with self._lock:
            return [one for one in self.stream if one["startstops"][0]["start"] >= start]

    def now(self) -> tuple[dict[str, Seen], list[Promise]]:
        """What was seen of every stage, by the prefix of its tasks' keys, and the tasks that run."""
        with self._lock:
            return {prefix: replace(seen) for prefix, seen in self.seen.items()}, list(self.running.values())

    def close(self, seconds: float) -> None:
        """Begin no more tasks, and wait so long at most for those that run."""
        self.status = "closed"
        for _ in range(self.threads):
            self._ready.put((-inf, next(self._numbers), None))
        with self._lock:
            left = list(self.running.values())
        self.rest(left, seconds)

    def _begin(self, task: _Task) -> None:
        """Have it run when its turn comes."""
        self._ready.put((-task.priority, next(self._numbers), task))

    def _work(self) -> None:
        while (task := self._ready.get()[2]) is not None and self.status == "running":
            self._run(task)
            del task  # a thread that waits for the next one holds nothing of it

    def _run(self, task: _Task) -> None:
        promise = task.promise
        if not promise.set_running_or_notify_cancel():
            return
        with self._lock:
            self.running[promise.key] = _this_thread.promise = promise
        started = time.time()
        try:
            value, error = task.function(*_kept(task.arguments)), None
        except BaseException as raised:
            value, error = None, raised
        self._note(promise.key, started, time.time())
        if error is None:
            promise.set_result(value)
        else:
            promise.set_exception(error)
        self._tell(promise)

    def _note(self, key: str, started: float, ended: float) -> None:
        _this_thread.promise = None
        with self._lock:
            del self.running[key]
            seen = self.seen[prefix_of(key)]
            seen.done, seen.seconds = seen.done + 1, seen.seconds + ended - started
            self.stream.append({"key": key, "startstops": [{"action": "compute", "start": started, "stop": ended}]})

    def _tell(self, promise: Promise) -> None:
        """Have those begin that needed nothing else."""
        with self._lock:
            needed_by, promise.needed_by = promise.needed_by, []
            for task in needed_by:
                task.lacks -= 1
                if not task.lacks:
                    self._begin(task)


def this_promise() -> Promise | None:
    """That of the task which this thread runs; None where it runs none of a pool."""
    return getattr(_this_thread, "promise", None)


def promises(value: Any) -> Iterator[Promise]:
    """Those in a value, where Dask finds futures."""
    if isinstance(value, Promise):
        yield value
    elif type(value) in {list, tuple, set}:
        for one in value:
            yield from promises(one)
    elif type(value) is dict:
        for one in value.values():
            yield from promises(one)


def _kept(value: Any) -> Any:
    """The value, with what they gave in place of its promises."""
    if isinstance(value, Promise):
        return value.result()
    if type(value) in {list, tuple, set}:
        return type(value)(_kept(one) for one in value)
    if type(value) is dict:
        return {key: _kept(one) for key, one in value.items()}
    return value
