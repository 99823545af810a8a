"""Where runs of little data compute: threads of this process and no cluster, in place of the `local` one that they would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.backend.threads import blas_limited
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.local import CLOSE_S, Local
from pipeline.clusters.on_this_machine import tasks_at_once
from pipeline.tables.pool import Pool


@contextmanager
def open_pool(kind: Local, *, lean: bool = False) -> Iterator[Cluster]:
    """A cluster in name: one worker of as many threads as Dask's would have. `lean` as for `open_cluster`."""
    kind.check()
    threads = tasks_at_once(kind.threads, 1, "cpu")
    pool = Pool(threads)
    try:
        with blas_limited():
            yield Cluster(kind, pool, 1, threads, "cpu", None, lean)
    finally:
        pool.close(CLOSE_S)
