"""What every worker of a run is told before its first task, workers that join later too: what parts are, and how it shares its GPU.

The scheduler is told how often to look for tasks that wait while another worker has none, and how many workers one task may end.
"""

from __future__ import annotations

from typing import Any

from pipeline.backend.allocator import share_memory
from pipeline.backend.devices import Backend
from pipeline.clusters.freed import give_back_what_is_freed
from pipeline.clusters.spilling import tell_of_full_disks
from pipeline.errors import PlaceError
from pipeline.tables.lanes import announce_lane, open_lane
from pipeline.tables.wire import register_with_dask, register_with_gpus

MOVE_MS = 100.0
"""Dask gives a task to a worker that has what it reads, and would look but once a second whether another one has nothing to do."""


DEATHS = 3
"""Workers that may die with a task: then the run fails, and says which task it was."""


class _Parts:
    """A worker plugin: every worker knows the size and wire form of parts before the first one arrives, and how to do with its memory."""

    name = "pipeline-parts"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Called by Dask on each worker as it joins."""
        register_with_dask()
        tell_of_full_disks(worker)
        give_back_what_is_freed(worker)


class _Gpu:
    """A worker plugin for runs on GPUs: one allocator for queries and arrays, parts on the GPU count as its, one thread uses it."""

    name = "pipeline-gpu"
    idempotent = True

    async def setup(self, worker: Any) -> None:
        """Called by Dask on each worker as it joins."""
        share_memory()
        register_with_gpus()
        await open_lane(worker)


class _Lanes:
    """A scheduler plugin for runs on GPUs: a worker that joins has a place for a task of its GPU."""

    name = "pipeline-lanes"
    idempotent = True

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Called by Dask as a worker joins, before tasks are looked for that it may run."""
        announce_lane(scheduler, worker)


def prepare_workers(client: Any, backend: Backend) -> None:
    """Have every worker prepared. Raises PlaceError where this project is not installed on them."""
    from distributed import SchedulerPlugin, WorkerPlugin

    _register(client, _Parts, WorkerPlugin)
    client.run_on_scheduler(_settled)
    if backend == "gpu":
        _register(client, _Gpu, WorkerPlugin)
        _register(client, _Lanes, SchedulerPlugin)


def _settled(dask_scheduler: Any) -> None:
    """On the scheduler, in one call: what every run wants of it."""
    move_soon(MOVE_MS, dask_scheduler)
    blame_soon(DEATHS, dask_scheduler)


def move_soon(every_ms: float, dask_scheduler: Any) -> None:
    """On the scheduler: how often tasks that wait go to workers that have none, unless the cluster has that switched off."""
    moving = dask_scheduler.periodic_callbacks.get("stealing")
    if moving is not None and moving.callback_time > every_ms:
        moving.stop()
        moving.callback_time = every_ms
        moving.start()


def blame_soon(deaths: int, dask_scheduler: Any) -> None:
    """On the scheduler: a task fails with the so-manieth worker that dies with it, or sooner where the cluster says so."""
    dask_scheduler.allowed_failures = min(dask_scheduler.allowed_failures, deaths - 1)


def _register(client: Any, plugin: type, kind: type) -> None:
    try:
        client.register_plugin(type(plugin.__name__, (plugin, kind), {})())
    except Exception as error:
        what = "Install the same version of this project on the machines of its workers, and start them again."
        raise PlaceError(f"cluster: the workers of {client.scheduler.address} cannot run this project's code ({error}). {what}") from error
