"""A cluster in use: opened by its kind, its workers told what parts are, and closed at the end.

Whatever listens binds to 127.0.0.1 unless the job says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipeline.backend.devices import Backend, gpu_count
from pipeline.backend.threads import blas_limited
from pipeline.clusters.kind import ClusterKind, ClusterSpec
from pipeline.clusters.on_this_machine import HOST, QUIET
from pipeline.errors import PlaceError
from pipeline.tables.session import ClusterSession, register_with_dask


@dataclass(frozen=True)
class Cluster:
    """A cluster in use: of which kind, the client, worker processes and the threads of each; `dashboard` is None where it is off."""

    spec: ClusterKind
    client: Any
    workers: int
    threads: int
    backend: Backend
    dashboard: str | None
    lean: bool = False

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return self.spec.kind

    def session(self) -> ClusterSession:
        """Where tables of this run compute."""
        return ClusterSession(self.client, self.backend, self.workers, self.threads, lean=self.lean and self.spec.lean)


class _Registered:
    """A worker plugin: every worker knows the size and the wire form of parts before the first one arrives."""

    name = "pipeline-parts"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Called by Dask on each worker as it joins."""
        register_with_dask()


@contextmanager
def open_cluster(spec: ClusterSpec, backend: Backend, *, lean: bool = False) -> Iterator[Cluster]:
    """The cluster, closed at the end if this process opened it. Raises PlaceError where it cannot be had.

    `lean` says that this process is the command line's own.
    """
    register_with_dask()
    logging.getLogger("distributed").setLevel(QUIET)
    kind = spec.for_backend(backend)
    kind.check()
    with kind.open(backend) as client:
        _register(client)
        threads = list(client.nthreads().values())
        if backend == "gpu" and kind.elsewhere:
            _need_gpus(client)
        with blas_limited():
            yield Cluster(kind, client, len(threads), max(threads), backend, _dashboard(client, kind), lean)


def _need_gpus(client: Any) -> None:
    """Raise PlaceError where a worker shows no GPU: XGBoost would train there on the CPU in silence."""
    without = sorted(address for address, gpus in client.run(gpu_count).items() if gpus == 0)
    if without:
        raise PlaceError(
            f"backend gpu: the worker at {without[0]} shows no NVIDIA GPU ({len(without)} such workers). Start workers on machines "
            "with GPUs (dask cuda worker), or use backend: cpu."
        )


def _dashboard(client: Any, kind: ClusterKind) -> str | None:
    port = client.scheduler_info(n_workers=0)["services"].get("dashboard") if kind.dashboard else None
    if port is None:
        return None
    return str(client.dashboard_link) if kind.elsewhere else f"http://{HOST}:{port}/status"


def _register(client: Any) -> None:
    """Give every worker, those that join later too, the plugin. Raises PlaceError where this project is not installed on them."""
    from distributed import WorkerPlugin

    try:
        client.register_plugin(type("Registered", (_Registered, WorkerPlugin), {})())
    except Exception as error:
        what = "Install the same version of this project on the machines of its workers, and start them again."
        raise PlaceError(f"cluster: the workers of {client.scheduler.address} cannot run this project's code ({error}). {what}") from error
