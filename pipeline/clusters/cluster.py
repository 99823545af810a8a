"""A cluster is opened by its kind, its workers are told what parts are, and it is closed at the end.

Whatever listens binds to 127.0.0.1 unless the job says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pipeline.backend.devices import Backend
from pipeline.backend.threads import blas_limited
from pipeline.clusters.alike import all_alike
from pipeline.clusters.encryption import plain_text_note
from pipeline.clusters.frozen import Watch, watched
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.kind import ClusterKind, ClusterSpec
from pipeline.clusters.on_this_machine import HOST, QUIET
from pipeline.clusters.scaling import Scaled, Scaling
from pipeline.clusters.scratch import scratch
from pipeline.clusters.workers import prepare_workers
from pipeline.errors import PlaceError
from pipeline.tables.budget import Budget
from pipeline.tables.wire import register_with_dask

WAIT_S = 60.0  # for workers on this machine


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
    with ExitStack() as stack:
        memory = kind.memory(backend)
        folder = stack.enter_context(scratch()) if memory else ""  # gone once no worker is there to write to it
        client = stack.enter_context(kind.open(backend))
        client.loop.asyncio_loop.set_exception_handler(_said)
        watch = None if kind.in_this_process else stack.enter_context(watched(client, warnings.append))
        with _refused_if_lost(watch):
            if kind.elsewhere:
                stack.enter_context(all_alike(client, backend, warnings.append, encrypted=encrypted))
            prepare_workers(client, backend)
            if kind.elsewhere:
                warnings += plain_text_note(kind.kind, [client.scheduler.address, *client.nthreads()])
            threads = list(client.nthreads().values())
        with blas_limited():
            scaling = getattr(kind, "workers", None)
            scaled = Scaled(client, scaling, getattr(kind, "wait_s", WAIT_S)) if isinstance(scaling, Scaling) else None
            workers = scaling.maximum if isinstance(scaling, Scaling) else len(threads)
            stated = getattr(kind, "table_memory", None) is not None
            budget = Budget(memory, max(threads), folder, stated) if memory else None
            yield Cluster(kind, client, workers, max(threads), backend, _dashboard(client, kind), lean, warnings, scaled, watch, budget)


def _said(loop: Any, context: dict[str, Any]) -> None:
    """What the client's loop has to say, but for waits of Dask's own that ran out of time when nobody waited for them any more.

    One that does so while its loop is stopped would print its traceback after a run that ended well.
    """
    forgotten = context["message"].startswith("Future exception was never retrieved")
    if not (forgotten and isinstance(context.get("exception"), TimeoutError)):
        loop.default_exception_handler(context)


@contextmanager
def _refused_if_lost(watch: Watch | None) -> Iterator[None]:
    """What fails inside because the scheduler is lost is a PlaceError that says so."""
    try:
        yield
    except (OSError, PlaceError) as error:
        if watch is None or not watch.lost:
            raise
        raise PlaceError(f"cluster: {watch.lost}. Start it again, and run again.") from error


def _dashboard(client: Any, kind: ClusterKind) -> str | None:
    port = client.scheduler_info(n_workers=0)["services"].get("dashboard") if kind.dashboard else None
    if port is None:
        return None
    return kind.dashboard_of(client, port) if kind.elsewhere else f"http://{HOST}:{port}/status"
