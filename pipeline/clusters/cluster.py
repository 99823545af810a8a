"""ClusterSpec -> a running Dask cluster and its client: the only file that imports dask_cuda or distributed_ucxx. It closes what it opened.

Whatever listens binds to 127.0.0.1 unless the job says otherwise.
"""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask

from pipeline.backend.devices import Backend, gpu_count
from pipeline.backend.threads import blas_limited, cores, worker_threads
from pipeline.errors import PlaceError
from pipeline.job.spec import ClusterSpec
from pipeline.tables.session import ClusterSession, register_with_dask

HOST = "127.0.0.1"
# In our own process Dask would look around a hundred times a second, and XGBoost's threads stand still meanwhile.
CALM = {"distributed.worker.profile.interval": "200ms", "distributed.admin.tick.interval": "200ms"}
CONNECT_TIMEOUT_S = 10
QUIET = logging.CRITICAL  # what fails comes to the user as one message; Dask would print it too, with its traceback


@dataclass(frozen=True)
class Cluster:
    """A cluster in use: its kind, the client, worker processes and the threads of each; `dashboard` is None where it is off."""

    kind: str
    client: Any
    workers: int
    threads: int
    backend: Backend

    dashboard: str | None
    lean: bool = False

    def session(self) -> ClusterSession:
        """Where tables of this run compute."""
        return ClusterSession(self.client, self.backend, self.workers, self.threads, lean=self.lean and self.kind == "local")


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
def open_cluster(spec: ClusterSpec, backend: Backend, *, lean: bool = False) -> Iterator[Cluster]:
    """The cluster, closed at the end if this process opened it. Raises PlaceError where it cannot be had.

    `lean` says that this process is the command line's own.
    """
    register_with_dask()
    logging.getLogger("distributed").setLevel(QUIET)
    kind = kind_of(spec, backend)
    check_cluster(spec, kind)
    opened = {"local": _local, "cuda": _cuda, "scheduler": _scheduler}[kind](spec, backend)
    client = _client(opened, spec)
    try:
        _register(client)
        threads = list(client.nthreads().values())
        if backend == "gpu" and kind == "scheduler":
            _need_gpus(client)
        with blas_limited():
            yield Cluster(kind, client, len(threads), max(threads), backend, _dashboard(client, spec, kind), lean)
    finally:
        client.close()
        if kind != "scheduler":
            opened.close()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep SIGINT for afterwards. Threads and worker processes begun here never see one: on Ctrl-C this process ends them in order."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its own start, at the first worker's, would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _need_gpus(client: Any) -> None:
    """Raise PlaceError where a worker shows no GPU: XGBoost would train there on the CPU in silence."""
    without = sorted(address for address, gpus in client.run(gpu_count).items() if gpus == 0)
    if without:
        raise PlaceError(
            f"backend gpu: the worker at {without[0]} shows no NVIDIA GPU ({len(without)} such workers). Start workers on machines "
            "with GPUs (dask cuda worker), or use backend: cpu."
        )


def _dashboard(client: Any, spec: ClusterSpec, kind: str) -> str | None:
    port = client.scheduler_info(n_workers=0)["services"].get("dashboard") if spec.dashboard else None
    if port is None:
        return None
    return str(client.dashboard_link) if kind == "scheduler" else f"http://{HOST}:{port}/status"


def _register(client: Any) -> None:
    """Give every worker, those that join later too, the plugin. Raises PlaceError where this project is not installed on them."""
    from distributed import WorkerPlugin

    try:
        client.register_plugin(type("Registered", (_Registered, WorkerPlugin), {})())
    except Exception as error:
        what = "Install the same version of this project on the machines of its workers, and start them again."
        raise PlaceError(f"cluster: the workers of {client.scheduler.address} cannot run this project's code ({error}). {what}") from error


def check_cluster(spec: ClusterSpec, kind: str) -> None:
    """Raise PlaceError for what can be known of a cluster that cannot be had before anything is started or asked."""
    if kind == "cuda":
        if gpu_count() == 0:
            raise PlaceError("cluster cuda: this machine shows no NVIDIA GPU. Use cluster: local, or a scheduler whose workers have GPUs.")
        if find_spec("dask_cuda") is None:
            raise PlaceError("cluster cuda: dask-cuda is not installed here. Install it with: pip install '.[gpu]'")
        cuda_options(spec, gpu_count())
    elif kind == "scheduler":
        _address(spec)


def _client(opened: Any, spec: ClusterSpec) -> Any:
    """A client of the cluster. Raises PlaceError where no scheduler answers, or one that has no worker."""
    from distributed import Client

    if not isinstance(opened, str):
        return Client(opened)
    try:
        client = Client(opened, timeout=CONNECT_TIMEOUT_S)
    except (OSError, TimeoutError, ValueError) as error:
        given = f" (of {spec.scheduler_file})" if spec.scheduler_file else ""
        raise PlaceError(
            f"cluster scheduler: no Dask scheduler answers at {opened}{given} within {CONNECT_TIMEOUT_S} s. "
            "Is it running, and does a firewall let this machine reach it?"
        ) from error
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
    except TimeoutError as error:
        client.close()
        raise PlaceError(f"cluster scheduler: {opened} has no worker. Start one with: dask worker {opened}") from error
    return client


def _local(spec: ClusterSpec, backend: Backend) -> Any:
    from distributed import LocalCluster

    # With no address given Dask would listen on every interface, dashboard or not.
    common: dict[str, Any] = {"dashboard_address": f"{HOST}:0", "worker_dashboard_address": f"{HOST}:0", "silence_logs": QUIET}
    common["scheduler_kwargs"] = {"dashboard": spec.dashboard}
    if spec.memory_limit:
        common["memory_limit"] = spec.memory_limit
    if spec.workers is None or spec.workers == 1:
        # One GPU takes one task at a time: several would share its memory with nothing between them.
        threads = spec.threads or (1 if backend == "gpu" else cores())
        with dask.config.set(CALM):
            return LocalCluster(processes=False, n_workers=1, threads_per_worker=threads, **common)
    threads = spec.threads or max(1, cores() // spec.workers)
    common |= {"host": HOST, "env": worker_threads(threads)}
    with _interrupts_held():
        return LocalCluster(processes=True, n_workers=spec.workers, threads_per_worker=threads, **common)


def _cuda(spec: ClusterSpec, _backend: Backend) -> Any:
    from dask_cuda import LocalCUDACluster

    with _interrupts_held():
        return LocalCUDACluster(**cuda_options(spec, gpu_count()))


def cuda_options(spec: ClusterSpec, gpus: int) -> dict[str, Any]:
    """What LocalCUDACluster is called with: one worker a GPU, an asynchronous allocator, UCX between several GPUs where it is installed."""
    workers = spec.workers or gpus
    if workers > gpus:
        raise PlaceError(f"cluster cuda: {workers} workers are asked for and this machine shows {gpus} GPUs. One worker a GPU is the most.")
    ucx = spec.protocol == "ucx" or (spec.protocol == "auto" and workers > 1 and find_spec("distributed_ucxx") is not None)
    memory: dict[str, Any] = {"rmm_pool_size": spec.rmm_pool_size} if spec.rmm_pool_size else {"rmm_async": True}
    memory["rmm_allocator_external_lib_list"] = ["cupy"]  # else CuPy keeps a pool of its own, which cuDF cannot have back
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
        **memory,
        **({"memory_limit": spec.memory_limit} if spec.memory_limit else {}),
    }


def _scheduler(spec: ClusterSpec, _backend: Backend) -> str:
    return _address(spec)


def _address(spec: ClusterSpec) -> str:
    """The scheduler's address. Dask itself would wait for a missing scheduler file without an end."""
    if spec.scheduler_file is None:
        if spec.address is None:
            raise PlaceError("cluster scheduler: give address: tcp://HOST:PORT, or scheduler_file: PATH")
        return spec.address
    remedy = f"Start a scheduler that writes it: dask scheduler --scheduler-file {spec.scheduler_file}"
    try:
        return str(json.loads(Path(spec.scheduler_file).read_text(encoding="utf-8"))["address"])
    except OSError as error:
        raise PlaceError(f"cluster scheduler: {spec.scheduler_file}: {error.strerror}. {remedy}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PlaceError(f"cluster scheduler: {spec.scheduler_file}: not the file of a Dask scheduler. {remedy}") from error
