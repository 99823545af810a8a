"""Where a job runs that is to be disturbed: in one process, in two workers of this machine, on a scheduler that stands, on two hosts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tests.clusters.hosts import cluster_over, two_hosts
from tests.clusters.running import one_more_worker, running_scheduler

ROOT = Path(__file__).parents[2]
SPAWNED = "spawn_main"  # what a process that Dask's nanny has started says of itself


@dataclass(frozen=True)
class Ground:
    """A place to run: what the command line needs, how the cable is pulled, and `workers`, their processes while a driver runs."""

    cluster: str
    workers: Callable[[int], list[int]]
    prefix: tuple[str, ...] = ()
    cable: Callable[[str], None] | None = None


def family(pid: int) -> list[psutil.Process]:
    """All processes of the session that a driver leads, but for those that have ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def _spawned(of: list[psutil.Process]) -> list[int]:
    found = []
    for process in of:
        try:
            if any(SPAWNED in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


@contextmanager
def one_process(_: Path) -> Iterator[Ground]:
    """Threads of the driver's own process."""
    yield Ground("{kind: local, dashboard: false}", lambda _: [])


@contextmanager
def two_workers(_: Path) -> Iterator[Ground]:
    """Two worker processes that the driver starts."""
    yield Ground("{kind: local, workers: 2, threads: 1, dashboard: false}", lambda driver: _spawned(family(driver)))


@contextmanager
def a_scheduler(scratch: Path) -> Iterator[Ground]:
    """A scheduler that stands already, one worker with a nanny, and one without."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        running_scheduler(scratch, environment=environment) as (address, _),
        one_more_worker(address, scratch, environment=environment) as alone,
    ):
        nannies = [child for child in psutil.Process().children() if f"dask worker {address}" in " ".join(child.cmdline())]

        def workers(_: int) -> list[int]:
            below = [child for nanny in nannies if nanny.is_running() and nanny.pid != alone.pid for child in nanny.children()]
            return _spawned(below) + ([alone.pid] if alone.poll() is None else [])

        try:
            yield Ground(f"{{address: '{address}', dashboard: false}}", workers)
        finally:
            alone.kill()  # it may be frozen


@contextmanager
def hosts(scratch: Path) -> Iterator[Ground]:
    """Two network namespaces: the driver, the scheduler and a worker in the first, another worker in the second."""
    with ExitStack() as stack:
        pair = stack.enter_context(two_hosts())
        environment = {"PYTHONPATH": str(ROOT)}
        address, started = stack.enter_context(cluster_over(pair, "tcp", scratch, environment=environment))
        spec = f"{{address: '{address}', insecure: true, dashboard: false}}"
        yield Ground(spec, lambda _: [worker.pid for worker in started], tuple(pair[0].command()), partial(pair[1].cable))


PLACES = {"process": one_process, "workers": two_workers, "scheduler": a_scheduler, "hosts": hosts}


def command(ground: Ground, job: Path, out: Path, change: str) -> list[str]:
    """The command line that runs a job there, changed by KEY=VALUE."""
    words = ["--json", "--out", str(out), "--set", change, "--set", f"cluster={ground.cluster}"]
    return [*ground.prefix, sys.executable, "-m", "pipeline.run", str(job), *words]
