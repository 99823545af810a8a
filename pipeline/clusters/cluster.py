"""A cluster in use: opened by its kind, its workers told what parts are, and closed at the end.

Whatever listens binds to 127.0.0.1 unless the job says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from pipeline.backend.devices import Backend, gpu_count
from pipeline.backend.threads import blas_limited
from pipeline.clusters.alike import all_alike
from pipeline.clusters.encryption import plain_text_note
from pipeline.clusters.frozen import Watch, watched
from pipeline.clusters.kind import ClusterKind, ClusterSpec
from pipeline.clusters.on_this_machine import HOST, QUIET
from pipeline.clusters.scaling import Scaled, Scaling
from pipeline.clusters.scratch import scratch
from pipeline.clusters.workers import prepare_workers
from pipeline.errors import PlaceError
from pipeline.tables.budget import Budget
from pipeline.tables.pool import Pool
from pipeline.tables.pool_session import PoolSession
from pipeline.tables.session import ClusterSession, register_with_dask

WAIT_S = 60.0  # for workers on this machine


@dataclass(frozen=True)
class Cluster:
    """A cluster in use: of which kind, the client, worker processes and the threads of each; `dashboard` is None where it is off.

    `warnings` fill while it is used.
    """

    spec: ClusterKind
    client: Any
    workers: int
    threads: int
    backend: Backend
    dashboard: str | None
    lean: bool = False
    warnings: list[str] = field(default_factory=list)
    scaled: Scaled | None = None
    watch: Watch | None = None  # over processes; threads of this one need none

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    def lost(self) -> str:
        """What became of the scheduler, where it is gone; '' while it is there."""
        if self.watch is None:
            return ""
        return self.watch.lost or ("" if self.client.status == "running" else f"the scheduler at {self.client.scheduler.address} is gone")

    def session(self) -> ClusterSession:
        """Where tables of this run compute."""
        if isinstance(self.client, Pool):
            return PoolSession(self.client, self.backend, lean=self.lean and self.spec.lean)
        session = ClusterSession(self.client, self.backend, self.workers, self.threads, lean=self.lean and self.spec.lean)
        if memory := self.spec.memory(self.backend):
            folder = session.until_the_end.enter_context(scratch())
            session.budget = Budget(memory, self.workers * self.threads, folder)
        session.fixing = self.scaled.fixed if self.scaled else session.fixing
        return session

    def place(self) -> dict[str, Any]:
        """What run.json says of it; workers are those that there may be at most."""
        scaling = getattr(self.spec, "workers", None)
        least = {"minimum_workers": scaling.minimum} if isinstance(scaling, Scaling) else {}
        return {
            "kind": self.kind,
            "workers": self.workers,
            "threads_per_worker": self.threads,
            **least,
            "dask": not isinstance(self.client, Pool),
        }


@contextmanager
def open_cluster(spec: ClusterSpec, backend: Backend, *, lean: bool = False) -> Iterator[Cluster]:
    """The cluster, closed at the end if this process opened it. Raises PlaceError where it cannot be had.

    `lean` says that this process is the command line's own.
    """
    register_with_dask()
    for name in ("distributed", "distributed.client", "tornado.application"):  # each has a level of its own
        logging.getLogger(name).setLevel(QUIET)
    kind = spec.for_backend(backend)
    kind.check()
    warnings, encrypted = list[str](), not getattr(kind, "insecure", False)
    with (
        kind.open(backend) as client,
        nullcontext() if kind.in_this_process else watched(client, warnings.append) as watch,
        all_alike(client, backend, warnings.append, encrypted=encrypted) if kind.elsewhere else nullcontext(),
    ):
        prepare_workers(client, backend)
        if kind.elsewhere:
            warnings += plain_text_note(kind.kind, [client.scheduler.address, *client.nthreads()])
        threads = list(client.nthreads().values())
        with blas_limited():
            scaling = getattr(kind, "workers", None)
            scaled = Scaled(client, scaling, getattr(kind, "wait_s", WAIT_S)) if isinstance(scaling, Scaling) else None
            workers = scaling.maximum if isinstance(scaling, Scaling) else len(threads)
            yield Cluster(kind, client, workers, max(threads), backend, _dashboard(client, kind), lean, warnings, scaled, watch)


def _dashboard(client: Any, kind: ClusterKind) -> str | None:
    port = client.scheduler_info(n_workers=0)["services"].get("dashboard") if kind.dashboard else None
    if port is None:
        return None
    return kind.dashboard_of(client, port) if kind.elsewhere else f"http://{HOST}:{port}/status"


def no_gpu_for(backend: Backend, cluster: ClusterKind) -> str:
    """That a run on GPUs of this machine finds none; '' where it finds some, or needs none here."""
    lacking = backend == "gpu" and not cluster.elsewhere and gpu_count() == 0
    return "this machine shows no NVIDIA GPU, and so cannot run it: a machine that has one can" if lacking else ""


def need_allowed(cluster: ClusterKind, *, allow_code: bool) -> None:
    """Raise PlaceError for a cluster that would have commands of the job file run, where that is not allowed."""
    if (keys := cluster.commands()) and not allow_code:
        what = f"cluster {cluster.kind}: {', '.join(keys)} would have commands run that stand in the job file"
        raise PlaceError(f"{what}. Read them; if they are to run, say --allow-code (in Python: load(path).allowing_code()).")
