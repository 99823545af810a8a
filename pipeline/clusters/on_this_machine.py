"""What clusters that this process starts on this machine share: their keys, where they listen, how they start and end."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.backend.threads import cores
from pipeline.clusters.encryption import Tls, security_of
from pipeline.clusters.kind import ClusterSpec, Size
from pipeline.clusters.scaling import Count, Scaling
from pipeline.clusters.scratch import remove_left

HOST = "127.0.0.1"
GONE_S = 120.0  # how long a process that was killed may take to be gone: a busy machine has it wait
QUIET = logging.CRITICAL  # what fails comes to the user as one message; Dask would print it too, with its traceback


class OwnWorkers(ClusterSpec):
    """The keys of clusters whose workers this process starts."""

    workers: Count | Scaling | None = Field(None, description="Processes; local: threads of one where not given; cuda: one a GPU.")
    threads: int | None = Field(
        None, ge=1, le=10_000, description="Threads of each worker, on a GPU those beside its own; the machine's cores, shared out."
    )
    memory_limit: Size | None = Field(None, description="Memory of each worker, such as 8GB; beyond it parts spill to disk.")
    table_memory: Size | None = Field(
        None,
        description="local: memory of each worker to reckon with for tables, whose pieces lie on disk where one takes more than a quarter "
        "of it; memory_limit less 256 MB (of processes 384) where not given. A run that was out of memory is begun again with a "
        "sixteenth of it.",
    )
    tls: Tls | None = Field(None, description="Encrypts what worker processes tell one another; true: by certificates made for the run.")

    def encrypted_by(self) -> dict[str, Any]:
        """What a cluster of processes is called with beside these, where the job wants encryption."""
        return {} if self.tls is None else {"security": security_of(self.tls)}

    def common_options(self) -> dict[str, Any]:
        """What every such cluster of Dask is called with. With no address given it would listen on every interface, dashboard or not."""
        from pipeline.clusters.frozen import OWN_LIMIT

        return {
            "dashboard_address": f"{HOST}:0",
            "worker_dashboard_address": f"{HOST}:0",
            "scheduler_kwargs": {"dashboard": False, **OWN_LIMIT},  # it is served when somebody asks: client_of
            **({"memory_limit": self.memory_limit} if self.memory_limit else {}),
        }


def tasks_at_once(threads: int | None, workers: int, backend: Backend) -> int:
    """Tasks that a worker runs at once: its threads, by default its share of the cores, and one task more that uses the GPU."""
    return (threads or max(1, cores() // workers)) + (backend == "gpu")


@contextmanager
def client_of(cluster: Any, *, dashboard: bool, of_workers: bool = False) -> Iterator[Any]:
    """A client of a cluster of Dask that was just started; both are closed at the end.

    The scheduler's dashboard, and those of workers that began without, are served when somebody asks for them.

    On Ctrl-C and SIGTERM worker processes are killed: nobody wants what they do, and Dask would give each some seconds to end in order.
    """
    from distributed import Client

    from pipeline.clusters._dashboards import OF_SCHEDULERS, serve_when_asked, serve_workers_when_asked

    try:
        with closing(cluster), closing(Client(cluster)) as client:
            if dashboard:
                serve_when_asked(cluster.scheduler, OF_SCHEDULERS)
            if dashboard and of_workers:
                serve_workers_when_asked(client)
            try:
                yield client
            except Exception:
                raise
            except BaseException:
                _kill_workers(cluster)
                raise
    except Exception:
        raise
    except BaseException:
        remove_left()  # of workers that were killed: Dask ends before it has done so, now and then
        raise


def nanny_class() -> type:
    """Dask's Nanny, for which a worker process that it has killed may take its time to be gone.

    Dask's own gives such a process a second, and ends a run that has long been published with a bare TimeoutError.
    """
    import asyncio

    from distributed import Nanny

    async def kill(nanny: Any, timeout: float = 5, reason: str = "nanny-kill") -> None:
        """End the worker process. Raises TimeoutError, with its number, where it was killed and is there still."""
        try:
            await Nanny.kill(nanny, timeout=timeout, reason=reason)
        except TimeoutError:
            pid = nanny.pid
            try:
                await asyncio.wait_for(nanny.process.stopped.wait(), GONE_S)
            except TimeoutError as error:
                raise TimeoutError(f"the worker process {pid} was killed and is still there after {GONE_S:g} s") from error

    return type("PatientNanny", (Nanny,), {"kill": kill})


def _kill_workers(cluster: Any) -> None:
    """End the worker processes of a cluster, where it has any, for good."""
    from distributed import Nanny

    for nanny in cluster.workers.values():
        if isinstance(nanny, Nanny) and nanny.pid is not None:
            nanny.auto_restart = False
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)


@contextmanager
def interrupts_held() -> Iterator[None]:
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
