"""Queries that cuDF's own engine spreads over all GPUs of a cluster, one at a time, and how one that cannot end is noticed.

Nothing waits for a query but what needs its answer: a thread of its own runs it, once a task on each worker has reserved its GPU
(`tables/reserved`). It runs in the GPUs' lanes, so that the workers read, write and answer meanwhile. Where one of them is lost, the
others wait for it without an end.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.backend.engines import collect_spread, spread_engine
from pipeline.errors import PipelineError, RunError
from pipeline.tables.lanes import LaneClient
from pipeline.tables.part import Part
from pipeline.tables.reserved import Query, anywhere, arrived, is_reserved, let_go, reserve
from pipeline.tables.rounds import GIVEN_UP
from pipeline.tables.task import LOOK_S, run_task

if TYPE_CHECKING:
    from pipeline.tables.session import ClusterSession

PATIENCE_S = 7_200.0  # how long an answer may take once all GPUs are reserved
SOON_S = 2.0  # after which a worker whose connection broke is no longer known
CLOSE_S = 10.0  # how long to wait for the engine's end, which has its turn in the lanes: tasks and queries that nobody can end may be there
ENDED_BADLY = {"error", "cancelled"}


class AllGpus:
    """cuDF's engine over all workers of a client, made by the first query that wants it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.engine: Any = None
        self._lanes = LaneClient(client)
        self._asked = SimpleQueue[Query | None]()
        self._queries = list[Query]()  # those that are not over, in their order
        self._thread: Thread | None = None
        self._closed = Event()
        self._failed: RunError | None = None

    def begin(self, session: ClusterSession, stage: str, needed: Sequence[Any], build: Callable[[], pl.LazyFrame]) -> Any:
        """A future of the part that a query gives; `build` makes the query once the `needed` futures are there. Waits for nothing."""
        query = Query(uuid.uuid4().hex, stage, sorted(self._workers()), build)
        before = [earlier.tasks[-1] for earlier in self._queries[-1:]]  # two queries may not have some of the GPUs each
        there = session.submit(arrived, *needed, *before, stage=stage, on_host=True)
        query.tasks = [session.submit_to(worker, reserve, query.name, worker, there, stage=stage) for worker in query.workers]
        self._queries.append(query)
        self._asked.put(query)
        if self._thread is None:
            self._thread = Thread(target=self._serve, daemon=True)
            self._thread.start()
        return query.tasks[0]

    def rest(self, look: Callable[[], None]) -> None:
        """Wait until no query is under way; `look` is called now and then. Tasks that wait for one another may then begin.

        Were a query between two of them, each would wait for the other.
        """
        while self._queries:
            look()
            time.sleep(LOOK_S)

    def check(self) -> None:
        """Raise the RunError of a query that failed: where a worker is lost, the task that would tell it is lost too."""
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Give the workers' GPUs back to their tasks; a query that is under way is left behind."""
        self._closed.set()
        self._asked.put(None)
        for query in self._queries[::-1]:
            self.client.cancel(query.tasks[::-1], force=True)
        if self.engine is not None:
            ended = _beside(self.engine.shutdown)
            if wait([ended], CLOSE_S).done:
                ended.result()

    def _serve(self) -> None:
        """What the thread does: one query after the other."""
        while (query := self._asked.get()) is not None and not self._closed.is_set():
            try:
                run_task(query.stage, self._run, query)
            except PipelineError as error:
                if not self._closed.is_set():
                    self._tell_failure(query, error)
            finally:
                self._queries.remove(query)

    def _run(self, query: Query) -> None:
        rows = query.build()
        while not self._is_reserved(query):
            time.sleep(LOOK_S)
        self._tell(query, self._collected(query, rows))

    def _is_reserved(self, query: Query) -> bool:
        """Whether all GPUs are reserved. Raises what a task that was to reserve one failed with, and RunError where one is lost."""
        if self._closed.is_set():
            raise RunError(GIVEN_UP)
        for task in query.tasks:
            if task.status in ENDED_BADLY:
                raise task.exception() if task.status == "error" else RunError(GIVEN_UP)
        self._need_workers(query, "before it began")
        there = self.client.run(is_reserved, query.name, workers=query.workers, on_error="ignore")
        return len(there) == len(query.workers) and all(there.values())

    def _collected(self, query: Query, rows: pl.LazyFrame) -> pl.DataFrame:
        answer, deadline = _beside(partial(self._collect, rows)), time.monotonic() + PATIENCE_S
        while not wait([answer], LOOK_S).done:
            self._need_workers(query, "while it ran")
            if time.monotonic() > deadline:
                raise self._given_up(f"no answer came in {PATIENCE_S:,.0f} s. Run again, or on one GPU")
        if isinstance(answer.exception(), OSError):  # the scheduler will know in a moment whether a worker is gone
            time.sleep(SOON_S)
            self._need_workers(query, "while it ran")
        frame: pl.DataFrame = answer.result()
        return frame

    def _collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        self.engine = self.engine or spread_engine(self._lanes)
        return collect_spread(rows, self.engine)

    def _workers(self) -> set[str]:
        return set(self._lanes.scheduler_info()["workers"])

    def _need_workers(self, query: Query, when: str) -> None:
        if lost := sorted(set(query.workers) - self._workers()):
            raise self._given_up(f"the worker at {lost[0]} was lost {when} (out of GPU memory?). Run again")

    def _given_up(self, why: str) -> RunError:
        self.engine = None  # to shut it down would wait for the same workers
        return RunError(f"a query over all GPUs did not end: {why}.")

    def _tell(self, query: Query, frame: pl.DataFrame) -> None:
        """Give the answer to the first of the workers, and end the reservations."""
        first, *others = query.workers
        answer = self.client.scatter(Part(frame), workers=[first], hash=False)
        self.client.run_on_scheduler(anywhere, [task.key for task in query.tasks])
        self.client.run(let_go, query.name, answer.key, workers=[first])
        if others:
            self.client.run(let_go, query.name, None, workers=others, on_error="ignore")

    def _tell_failure(self, query: Query, error: PipelineError) -> None:
        """Have the tasks fail with the error, and what waits for them; and who drives the run, for they may be lost with their worker."""
        self._failed = error if isinstance(error, RunError) else None
        with suppress(OSError):  # where the scheduler is gone, whoever drives the run sees that as well
            self.client.run(let_go, query.name, error, on_error="ignore")


def _beside(function: Callable[[], Any]) -> Future[Any]:
    """What a thread gets that can be left behind: nothing ends a query that waits for a lost worker."""
    answer: Future[Any] = Future()

    def get() -> None:
        """In the thread."""
        try:
            answer.set_result(function())
        except BaseException as error:  # Polars' panics are no Exception
            answer.set_exception(error if isinstance(error, Exception) else RunError(f"{type(error).__name__}: {error}"))

    Thread(target=get, daemon=True).start()
    return answer
