"""The cluster of this machine's cores: threads of this process, or worker processes where several are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.memory import host_bytes
from pipeline.backend.threads import started_with, worker_environment
from pipeline.clusters.encryption import check_tls
from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.on_this_machine import HOST, QUIET, OwnWorkers, client_of, interrupts_held, nanny_class, tasks_at_once
from pipeline.clusters.scaling import Scaling, at_first, at_most
from pipeline.errors import PlaceError

# In our own process Dask would look around a hundred times a second, and XGBoost's threads stand still meanwhile.
CALM = {"distributed.worker.profile.interval": "200ms", "distributed.admin.tick.interval": "200ms"}
OF_ALL = 0.7  # of the machine's memory, where a job says nothing
OWN_BYTES = 256 << 20  # of what threads of this process have: its libraries, and what they keep of what was freed
OWN_OF_PROCESS = 384 << 20  # of a worker process, of which Dask counts mapped files, too
# How long closing waits for a task that has begun, of a run that was interrupted or failed; Dask would wait for half a minute.
CLOSE_S = 1.5


class Local(OwnWorkers, ClusterKind):
    """This machine's cores: threads of this process, or so many worker processes."""

    rank: ClassVar[int] = 1
    ignores: ClassVar[frozenset[str]] = frozenset({"protocol", "insecure"})
    lean: ClassVar[bool] = True

    kind: Literal["local"] = Field("local", description="This machine's cores.")

    @property
    def in_this_process(self) -> bool:
        """Whether it is threads of this process."""
        return not isinstance(self.workers, Scaling) and at_most(self.workers) == 1

    def check(self) -> None:
        """Raise PlaceError where certificates are asked for that cannot be had."""
        check_tls(self.kind, self.tls)

    def memory(self, backend: Backend) -> int | None:
        """What was said of tables, or what the process leaves of each worker's, or its share of most of the machine's (its container's)."""
        if backend == "gpu":
            return None
        if not (self.table_memory or self.memory_limit):
            return int(host_bytes() * OF_ALL) // at_most(self.workers) or None
        from dask.utils import parse_bytes

        if self.table_memory:
            return int(parse_bytes(self.table_memory))
        limit = int(parse_bytes(self.memory_limit))
        return max(limit - (OWN_BYTES if self.in_this_process else OWN_OF_PROCESS), limit // 4)

    def open(self, backend: Backend) -> AbstractContextManager[Any]:
        """A client of workers that are started here and closed at the end."""
        return self._served(self._threads(backend)) if self.in_this_process else self._scaled(backend)

    def _served(self, cluster: Any) -> AbstractContextManager[Any]:
        return client_of(cluster, dashboard=self.dashboard, of_workers=True)

    def _threads(self, backend: Backend) -> Any:
        from dask import config
        from distributed import LocalCluster, Worker

        from pipeline.clusters._dashboards import without_dashboard

        threads = tasks_at_once(self.threads, 1, backend)
        with config.set(CALM):
            options = {"n_workers": 1, "threads_per_worker": threads, "silence_logs": QUIET, **self.common_options()}
            options.setdefault("memory_limit", host_bytes() or "auto")
            return _prompt(LocalCluster(processes=False, worker_class=without_dashboard(Worker), **options))

    @contextmanager
    def _scaled(self, backend: Backend) -> Iterator[Any]:
        """A client of worker processes; those that come later start with the same environment."""
        threads = tasks_at_once(self.threads, at_most(self.workers), backend)
        environment = worker_environment(threads)
        kept = started_with(environment) if isinstance(self.workers, Scaling) else nullcontext()
        with kept, self._served(self._processes(threads, environment)) as client:
            yield client

    def _processes(self, threads: int, environment: dict[str, str]) -> Any:
        from distributed import LocalCluster
        from distributed.system import MEMORY_LIMIT

        from pipeline.clusters._dashboards import without_dashboard

        options = {**self.common_options(), **self.encrypted_by(), "host": HOST, "env": environment, "silence_logs": QUIET}
        options |= {"worker_class": without_dashboard(nanny_class()), "n_workers": at_first(self.workers), "threads_per_worker": threads}
        if isinstance(self.workers, Scaling):  # Dask would share the memory out among those that begin
            options.setdefault("memory_limit", MEMORY_LIMIT // self.workers.maximum)
        with interrupts_held(), started_with(environment):
            try:
                return LocalCluster(processes=True, **options)
            except (RuntimeError, OSError) as error:  # a TimeoutError is an OSError
                why = " ".join(str(error).split()) or type(error).__name__
                remedy = (
                    "Is the machine short of memory, or very busy? Ask for fewer workers, or leave workers out for threads of one process."
                )
                raise PlaceError(f"cluster local: its worker processes could not be started ({why}). {remedy}") from error


def _prompt(cluster: Any) -> Any:
    """The cluster of threads, which waits for `CLOSE_S` at most when it is closed; processes take Dask's own time."""
    for worker in cluster.workers.values():
        worker.close = partial(worker.close, timeout=CLOSE_S)
    return cluster
