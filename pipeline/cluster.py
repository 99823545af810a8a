"""ClusterSpec -> a running Dask cluster and its client: the only file that imports dask_cuda or distributed_ucxx. It closes what it opened.

Whatever listens binds to 127.0.0.1 unless the job says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pipeline.backend import Backend, cores, gpu_count, limit_threads
from pipeline.errors import PlaceError
from pipeline.job import ClusterSpec
from pipeline.part import register_with_dask
from pipeline.session import ClusterSession

HOST = "127.0.0.1"
CONNECT_TIMEOUT_S = 20


@dataclass(frozen=True)
class Cluster:
    """A cluster in use: its kind, the client, worker processes and the threads of each; `dashboard` is None where it is off."""

    kind: str
    client: Any
    workers: int
    threads: int
    backend: Backend

    dashboard: str | None

    def session(self) -> ClusterSession:
        """Where tables of this run compute."""
        return ClusterSession(self.client, self.backend, self.workers, self.threads)


class _Registered:
    """A worker plugin: every worker knows the size and the wire form of parts before the first one arrives."""

    name = "pipeline-parts"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Called by Dask on each worker as it joins."""
        register_with_dask()


def kind_of(spec: ClusterSpec, backend: Backend) -> str:
    """The kind of cluster that `auto` means: GPUs where the backend is gpu, else threads in this process."""
    if spec.kind != "auto":
        return str(spec.kind)
    if spec.address or spec.scheduler_file:
        return "scheduler"
    return "cuda" if backend == "gpu" else "local"


@contextmanager
def open_cluster(spec: ClusterSpec, backend: Backend) -> Iterator[Cluster]:
    """The cluster, closed at the end if this process opened it. Raises PlaceError where it cannot be had."""
    register_with_dask()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    kind = kind_of(spec, backend)
    opened = {"local": _local, "cuda": _cuda, "scheduler": _scheduler}[kind](spec)
    client = _client(opened, spec)
    try:
        client.register_plugin(_worker_plugin())
        threads = list(client.nthreads().values())
        if not threads:
            raise PlaceError(
                f"the cluster at {client.scheduler.address} has no worker. Start one with: dask worker {client.scheduler.address}"
            )
        yield Cluster(kind, client, len(threads), max(threads), backend, _dashboard(client, spec, kind))
    finally:
        client.close()
        if kind != "scheduler":
            opened.close()


def _dashboard(client: Any, spec: ClusterSpec, kind: str) -> str | None:
    port = client.scheduler_info(n_workers=0)["services"].get("dashboard") if spec.dashboard else None
    if port is None:
        return None
    return str(client.dashboard_link) if kind == "scheduler" else f"http://{HOST}:{port}/status"


def _worker_plugin() -> Any:
    from distributed import WorkerPlugin

    return type("Registered", (_Registered, WorkerPlugin), {})()


def _client(opened: Any, spec: ClusterSpec) -> Any:
    from distributed import Client

    if isinstance(opened, dict):
        try:
            client = Client(timeout=CONNECT_TIMEOUT_S, **opened)
            client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
        except (OSError, TimeoutError, ValueError) as error:
            where = spec.address or spec.scheduler_file
            raise PlaceError(f"cluster: no Dask scheduler with a worker answers at {where} ({type(error).__name__}: {error})") from error
        return client
    return Client(opened)


def _local(spec: ClusterSpec) -> Any:
    from distributed import LocalCluster

    # With no address given Dask would listen on every interface, dashboard or not.
    common: dict[str, Any] = {"dashboard_address": f"{HOST}:0", "worker_dashboard_address": f"{HOST}:0", "silence_logs": logging.ERROR}
    common["scheduler_kwargs"] = {"dashboard": spec.dashboard}
    if spec.memory_limit:
        common["memory_limit"] = spec.memory_limit
    if spec.workers is None or spec.workers == 1:
        return LocalCluster(processes=False, n_workers=1, threads_per_worker=spec.threads or cores(), **common)
    threads = spec.threads or max(1, cores() // spec.workers)
    environment = {**limit_threads(), "POLARS_MAX_THREADS": str(threads)}
    return LocalCluster(processes=True, n_workers=spec.workers, threads_per_worker=threads, host=HOST, env=environment, **common)


def _cuda(spec: ClusterSpec) -> Any:
    if gpu_count() == 0:
        raise PlaceError("cluster cuda: this machine shows no NVIDIA GPU. Use cluster: local, or a scheduler whose workers have GPUs.")
    if find_spec("dask_cuda") is None:
        raise PlaceError("cluster cuda: dask-cuda is not installed here. Install it with: pip install '.[gpu]'")
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(**cuda_options(spec, gpu_count()))


def cuda_options(spec: ClusterSpec, gpus: int) -> dict[str, Any]:
    """What LocalCUDACluster is called with: one worker a GPU, an asynchronous allocator, UCX between several GPUs where it is installed."""
    workers = spec.workers or gpus
    if workers > gpus:
        raise PlaceError(f"cluster cuda: {workers} workers are asked for and this machine shows {gpus} GPUs. One worker a GPU is the most.")
    ucx = spec.protocol == "ucx" or (spec.protocol == "auto" and workers > 1 and find_spec("distributed_ucxx") is not None)
    pool = {"rmm_pool_size": spec.rmm_pool_size} if spec.rmm_pool_size else {"rmm_async": True}
    return {
        "n_workers": workers,
        "threads_per_worker": 1,
        "protocol": "ucx" if ucx else "tcp",
        "enable_cudf_spill": spec.enable_cudf_spill,
        "device_memory_limit": spec.device_memory_limit or "default",
        "dashboard_address": f"{HOST}:0",
        "worker_dashboard_address": f"{HOST}:0",
        "scheduler_kwargs": {"dashboard": spec.dashboard},
        "host": HOST,
        **pool,
        **({"memory_limit": spec.memory_limit} if spec.memory_limit else {}),
    }


def _scheduler(spec: ClusterSpec) -> dict[str, str]:
    if spec.scheduler_file:
        return {"scheduler_file": spec.scheduler_file}
    if not spec.address:
        raise PlaceError("cluster scheduler: give address: tcp://HOST:PORT, or scheduler_file: PATH")
    return {"address": spec.address}
