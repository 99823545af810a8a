"""GPUs that are reserved for one query over all of them: a task on each worker takes its GPU's place until the query is over.

What waits for the query waits for one of these tasks, as for any other; what does not can be submitted, and runs where it needs no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import polars as pl

from pipeline.errors import PipelineError, RunError
from pipeline.tables.part import Part
from pipeline.tables.rounds import go_on
from pipeline.tables.task import LOOK_S, leave_thread, this_worker

RESERVED = "pipeline_reserved"
"""The attribute of a worker that has what is reserved on it."""


@dataclass
class Query:
    """A query that was asked for: `build` makes it once what it needs is there; `tasks`, one of each worker, reserve the GPUs.

    The first of them gives the answer.
    """

    name: str
    stage: str
    workers: list[str]
    build: Callable[[], pl.LazyFrame]
    tasks: list[Any] = field(default_factory=list)


@dataclass
class _Reserved:
    """A GPU's reservation: it ends when the query is over, with the answer on the worker that is to have it, or with an error."""

    over: Event = field(default_factory=Event)
    outcome: Part | PipelineError | None = None


def arrived(*_values: Any) -> None:
    """A task that is done when these values are there: what waits for it is sent none of them."""


def reserve(query: str, address: str, _arrived: None) -> Part | None:
    """A task that keeps the worker's place for tasks of its GPU, and no thread, until the query is over; gives what it was then given.

    Raises the error that the query ended with, and RunError where it was lost with its worker, so that Dask runs it again on another one.
    """
    worker = this_worker()
    if worker.address != address:
        raise RunError("the answer of a query over all GPUs was lost with its worker (out of memory?). Run again.")
    leave_thread()
    mine = reserved(worker)[query] = _Reserved()
    try:
        while not mine.over.wait(LOOK_S):
            go_on()
    finally:
        del reserved(worker)[query]
    if isinstance(mine.outcome, PipelineError):
        raise mine.outcome
    return mine.outcome


def reserved(worker: Any) -> dict[str, _Reserved]:
    """What is reserved on a worker, by the query's name."""
    known: dict[str, _Reserved] = worker.__dict__.setdefault(RESERVED, {})
    return known


def is_reserved(query: str, dask_worker: Any) -> bool:
    """On a worker: whether its GPU is reserved for this query."""
    return query in reserved(dask_worker)


def let_go(query: str, outcome: PipelineError | str | None, dask_worker: Any) -> None:
    """On a worker: end the reservation, with an error, or with the value of this key, which the worker has."""
    if (mine := reserved(dask_worker).get(query)) and not mine.over.is_set():
        mine.outcome = dask_worker.data[outcome] if isinstance(outcome, str) else outcome
        mine.over.set()


def anywhere(keys: list[str], dask_scheduler: Any) -> None:
    """On the scheduler: let these tasks run on any worker from now on, should they have to run again."""
    dask_scheduler.set_restrictions({key: None for key in keys if key in dask_scheduler.tasks})
