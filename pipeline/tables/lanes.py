"""The two lanes of a worker with a GPU: one thread that uses the GPU, and beside it the worker's own, which read, parse and write.

A task of the GPU goes to an executor of one thread. It also takes the one place that a worker has for such tasks, so that those which wait
keep no thread of the others from work, nor their inputs in memory; and it goes before tasks of the host that came earlier.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from pipeline.backend.devices import Backend

LANE = "gpu"
"""The executor's name on every worker."""

PLACE = "pipeline-gpu"
"""The resource of Dask's that every worker has one of."""


def lane(backend: Backend, *, on_host: bool) -> AbstractContextManager[Any]:
    """Tasks that are submitted in the block run in the GPU's lane, but for those of the host's; without a GPU there is one lane for all."""
    if not in_lane(backend, on_host=on_host):
        return nullcontext()
    from dask import annotate

    annotated: AbstractContextManager[Any] = annotate(executor=LANE, resources={PLACE: 1})
    return annotated


def place() -> AbstractContextManager[Any]:
    """Tasks that are submitted in the block take the place of a worker's GPU, so that no task of its lane runs beside them."""
    from dask import annotate

    annotated: AbstractContextManager[Any] = annotate(resources={PLACE: 1})
    return annotated


def in_lane(backend: Backend, *, on_host: bool) -> bool:
    """Whether a task waits for a GPU's one thread."""
    return backend == "gpu" and not on_host


async def open_lane(worker: Any) -> None:
    """Give a worker its thread for the GPU and the place for a task of it. Called again, it changes nothing."""
    from distributed.threadpoolexecutor import ThreadPoolExecutor

    if LANE not in worker.executors:
        worker.executors[LANE] = ThreadPoolExecutor(1, thread_name_prefix="Dask-GPU-Thread")
        await worker.set_resources(**{PLACE: 1})


def announce_lane(scheduler: Any, worker: str) -> None:
    """Have the scheduler know of a worker's place as it joins: tasks may wait for one, and it looks for them then and not later."""
    scheduler.add_resources(worker=worker, resources={PLACE: 1})


class LaneClient:
    """A client whose `run` has a function run in the lanes of the workers' GPUs: on their event loops, as Dask would, nothing else could.

    It knows no more of a client than cuDF's `DaskEngine` asks of one.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
        """What the function gives on every worker, by its address; arguments and options as `distributed.Client.run` has them."""
        found: dict[str, Any] = self._client.run(run_in_lane, function, *arguments, **options)
        return found

    def scheduler_info(self, **_options: Any) -> dict[str, Any]:
        """What the scheduler knows of itself and of all its workers; a client's own is now and then without them."""
        found: dict[str, Any] = self._client.sync(self._client.scheduler.identity, n_workers=-1)
        return found


async def run_in_lane(function: Callable[..., Any], *arguments: Any, dask_worker: Any, **options: Any) -> Any:
    """On a worker: what the function gives, run by the thread that uses its GPU; one that takes its worker is given it, as Dask does."""
    import asyncio

    if "dask_worker" in inspect.signature(function).parameters:
        options["dask_worker"] = dask_worker
    return await asyncio.get_running_loop().run_in_executor(dask_worker.executors[LANE], partial(function, *arguments, **options))
