"""A cluster in use: opened by its kind, its workers told what parts are, and closed at the end.

Whatever listens binds to 127.0.0.1 unless the job says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from pipeline.backend.devices import Backend
from pipeline.backend.threads import blas_limited
from pipeline.clusters.alike import all_alike
from pipeline.clusters.kind import ClusterKind, ClusterSpec
from pipeline.clusters.on_this_machine import HOST, QUIET
from pipeline.clusters.workers import prepare_workers
from pipeline.tables.session import ClusterSession, register_with_dask


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

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    def session(self) -> ClusterSession:
        """Where tables of this run compute."""
        return ClusterSession(self.client, self.backend, self.workers, self.threads, lean=self.lean and self.spec.lean)


@contextmanager
def open_cluster(spec: ClusterSpec, backend: Backend, *, lean: bool = False) -> Iterator[Cluster]:
    """The cluster, closed at the end if this process opened it. Raises PlaceError where it cannot be had.

    `lean` says that this process is the command line's own.
    """
    register_with_dask()
    logging.getLogger("distributed").setLevel(QUIET)
    kind = spec.for_backend(backend)
    kind.check()
    with kind.open(backend) as client, all_alike(client, backend) if kind.elsewhere else nullcontext(list[str]()) as refused:
        prepare_workers(client, backend)
        threads = list(client.nthreads().values())
        with blas_limited():
            yield Cluster(kind, client, len(threads), max(threads), backend, _dashboard(client, kind), lean, refused)


def _dashboard(client: Any, kind: ClusterKind) -> str | None:
    port = client.scheduler_info(n_workers=0)["services"].get("dashboard") if kind.dashboard else None
    if port is None:
        return None
    return kind.dashboard_of(client, port) if kind.elsewhere else f"http://{HOST}:{port}/status"
