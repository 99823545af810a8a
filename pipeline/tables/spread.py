"""Queries that cuDF's own engine spreads over all GPUs of a cluster: what stands still for one, and how one that cannot end is noticed.

The engine runs a query on the event loop of every worker. Meanwhile a worker sends no heartbeat and begins no task, and Dask would take it
for dead after some minutes; and where one of them is lost, the others wait for it without an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any

import polars as pl

from pipeline.backend.engines import collect_spread, spread_engine
from pipeline.errors import RunError
from pipeline.tables.lanes import PLACE

SILENCE_S = 86_400.0  # how long a worker may send no heartbeat while a query runs
PATIENCE_S = 7_200.0  # how long an answer may take
LOOK_S = 0.2
UNDONE = {"waiting", "queued", "no-worker", "processing"}


class AllGpus:
    """cuDF's engine over all workers of a client, made by the first query that wants it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.engine: Any = None

    def collect(self, query: pl.LazyFrame, look: Callable[[], None]) -> pl.DataFrame:
        """Run a query once the GPUs' own tasks are done; `look` is called now and then meanwhile.

        Raises RunError where a worker is lost while it runs, or no answer comes in `PATIENCE_S`.
        """
        told = self.client.submit(bool, pure=False)  # once it is done the scheduler knows of all that was submitted before
        while not told.done() or self.client.run_on_scheduler(tasks_of_gpus):
            look()
            time.sleep(LOOK_S)
        before = self.client.run_on_scheduler(be_patient, SILENCE_S)
        try:
            self.engine = self.engine or spread_engine(self.client)
            return self._answer(query, look)
        finally:
            self.client.run_on_scheduler(be_patient, before)

    def _answer(self, query: pl.LazyFrame, look: Callable[[], None]) -> pl.DataFrame:
        """What a thread gets that can be left behind: nothing ends a query that waits for a lost worker."""
        answer: Future[pl.DataFrame] = Future()
        Thread(target=_get, args=(answer, query, self.engine), daemon=True).start()
        workers, deadline = self._workers(), time.monotonic() + PATIENCE_S
        while not answer.done():
            look()
            time.sleep(LOOK_S)
            if lost := sorted(workers - self._workers()):
                self._give_up(f"the worker at {lost[0]} was lost while it ran (out of GPU memory?). Run again")
            if time.monotonic() > deadline:
                self._give_up(f"no answer came in {PATIENCE_S:,.0f} s. Run again, or on one GPU")
        return answer.result()

    def _workers(self) -> set[str]:
        return set(self.client.scheduler_info(n_workers=-1)["workers"])

    def _give_up(self, why: str) -> None:
        self.engine = None  # to shut it down would wait for the same workers
        raise RunError(f"a query over all GPUs did not end: {why}.")

    def close(self) -> None:
        """Give the workers' GPUs back to their tasks."""
        if self.engine is not None:
            self.engine.shutdown()


def _get(answer: Future[pl.DataFrame], query: pl.LazyFrame, engine: Any) -> None:
    try:
        answer.set_result(collect_spread(query, engine))
    except Exception as error:
        answer.set_exception(error)


def tasks_of_gpus(dask_scheduler: Any) -> int:
    """On the scheduler: how many tasks there are that use a GPU and are not done."""
    return sum(PLACE in (task.resource_restrictions or {}) and task.state in UNDONE for task in dask_scheduler.tasks.values())


def be_patient(seconds: float | None, dask_scheduler: Any) -> float | None:
    """On the scheduler: how long a worker may send no heartbeat, from now on; gives what it was."""
    before: float | None = dask_scheduler.worker_ttl
    dask_scheduler.worker_ttl = seconds
    return before
