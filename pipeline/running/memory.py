"""Workers out of memory: one process that has more than it was given, or workers that all stand still since nothing is left to spill.

Dask has a worker spill what it holds and then start no more tasks until there is room. Where there never is, nothing would ever happen
again; and in one process nobody holds it to its limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from pipeline.backend.glibc import give_back
from pipeline.backend.memory import host_bytes, resident_bytes
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.spilling import TOPIC, full_disks
from pipeline.errors import OutOfMemoryError
from pipeline.plan.plan import Plan
from pipeline.running.killed import REMEDY, size_text, stage_of
from pipeline.tables.pool import Pool

LOOK_S = 1.0  # between two looks
STUCK_S = 10.0  # for which all workers may stand still

OF_MACHINE = 0.92
"""Of the machine's or the container's memory, where a job states no limit: beyond it the system soon ends the process without a word."""
SPILLS = "Give it more (cluster.memory_limit), or worker processes, whose parts spill to disk (cluster.workers: 2)."


@dataclass(frozen=True)
class Used:
    """A worker's process: its bytes and its limit (0: none), whether it starts no more tasks, and the keys of those that it runs.

    `unspilled` is what workers said of disks that have no room for what they would spill.
    """

    memory: int
    limit: int
    paused: bool
    running: tuple[str, ...]
    unspilled: str = ""


@dataclass
class Memory:
    """The memory of a run's workers, looked at now and then."""

    cluster: Cluster
    plan: Plan
    next: float = 0.0
    stuck_since: float | None = field(default=None)
    last: str = ""  # the stages that worked when somebody last did
    limit: int = 0  # of this process, where its threads are the workers; 0 where there is none, or nobody has said yet
    unpaused: bool = False  # whether the worker of this process starts tasks up to its whole limit

    def look(self) -> None:
        """Raise OutOfMemoryError where the process has more memory than its limit, or no worker has done anything for want of it."""
        now = time.monotonic()
        if now >= self.next or 0 < self.limit < resident_bytes():  # that of this process is soon read, and grows by gigabytes a second
            self.next = now + LOOK_S
            self.check(self._used(), now)

    def _used(self) -> list[Used]:
        """What workers say; of this process what it has just now, which they say once a second."""
        client = self.cluster.client
        found = [used_here(client)] if isinstance(client, Pool) else client.run_on_scheduler(used_by_workers)
        here = resident_bytes() if self.cluster.spec.in_this_process else 0
        if 0 < self.limit < here:
            give_back()
            here = resident_bytes()
        return [replace(worker, memory=here) for worker in found] if here else list(found)

    def check(self, workers: list[Used], now: float) -> None:
        """The same of what was told."""
        running = [key for worker in workers for key in worker.running]
        stages = sorted({stage_of(key, self.plan) for key in running})
        self.last = ", ".join(stages) or self.last
        for worker in workers if self.cluster.spec.in_this_process else ():
            stated = getattr(self.cluster.spec, "memory_limit", None)
            self.limit = worker.limit if stated else int(worker.limit * OF_MACHINE)
            if self.limit and worker.memory > self.limit:
                there = f"cluster.memory_limit is {size_text(self.limit)}" if stated else f"{size_text(worker.limit)} are all there is"
                raise self._error(f"this process has {size_text(worker.memory)} where {there}", f". {SPILLS}")
        if not workers or running or not all(worker.paused for worker in workers):
            self.stuck_since = None
        elif self.cluster.spec.in_this_process and not self.unpaused:
            self.unpaused = True
            unpause(self.cluster.client)
        elif self.stuck_since is None:
            self.stuck_since = now
        elif now - self.stuck_since >= STUCK_S:
            most = max(workers, key=lambda worker: worker.memory)
            told = f"{size_text(most.memory)} of {size_text(most.limit)}"
            if most.unspilled:
                raise self._error(f"no worker can go on: they have {told}, and {most.unspilled}", "")
            remedy = SPILLS if self.cluster.spec.in_this_process else REMEDY
            raise self._error(f"no worker can go on: they have {told} and nothing left to spill", f". {remedy}")

    def _error(self, what: str, remedy: str) -> OutOfMemoryError:
        stage = self.last.partition(", ")[0]
        others = f", and {', '.join(self.last.split(', ')[1:])}" if ", " in self.last else ""
        error = OutOfMemoryError(f"out of memory while it works{others}: {what}{remedy}", stage=stage)
        error.where = self.plan.where(stage)
        return error


def unpause(client: Any) -> None:
    """Have workers of this process start tasks up to their whole limit, beyond which `Memory` ends the run.

    Dask lets them start none above 80 %. Where none runs and nothing is left to spill, that is what libraries and plans have, and it stays.
    """
    for worker in client.cluster.workers.values():
        worker.memory_manager.memory_pause_fraction = inf


def used_here(pool: Pool) -> Used:
    """What this process has, where its threads are the workers."""
    return Used(resident_bytes(), host_bytes(), False, tuple(promise.key for promise in pool.now()[1]))


def used_by_workers(dask_scheduler: Any) -> list[Used]:
    """On the scheduler: what its workers said last."""
    unspilled = " ".join(full_disks(dask_scheduler.get_events(TOPIC)))
    return [
        Used(
            int(worker.metrics.get("memory", 0)),
            int(worker.memory_limit or 0),
            worker.status.name == "paused",
            tuple(str(task.key) for task in worker.executing),
            unspilled,
        )
        for worker in dask_scheduler.workers.values()
    ]
