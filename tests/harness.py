"""What the tests of stages share beside `pipeline.testing`: two worker processes, and a small genotype table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.tables.wire import register_with_dask


@contextmanager
def two_workers() -> Iterator[ClusterSession]:
    """A session on two worker processes of one thread each."""
    with worker_processes(2) as session:
        yield session


@contextmanager
def worker_processes(count: int, *, silent: bool = False) -> Iterator[ClusterSession]:
    """A session on so many worker processes of one thread each; `silent` where tasks are to fail."""
    from distributed import Client, LocalCluster

    register_with_dask()
    options = {
        "n_workers": count,
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL if silent else logging.ERROR,
    }
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        client.run(register_with_dask)
        yield ClusterSession(client, "cpu", workers=count, threads=1)


@contextmanager
def in_process(workers: int) -> Iterator[ClusterSession]:
    """A session on workers that are threads of this process, where a test may change what they do."""
    from distributed import Client, LocalCluster

    register_with_dask()
    closed = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    options = {"n_workers": workers, "threads_per_worker": 1, "silence_logs": logging.ERROR, **closed}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        yield ClusterSession(client, "cpu", workers=workers, threads=1)


def genotypes(variants: int = 9, samples: int = 6) -> tuple[Part, dict[str, pl.DataFrame]]:
    """A small genotype table and its axes; byte j of row i of the calls is 16 i + j, so that a test sees which row it was."""
    frame = pl.DataFrame(
        {
            "chromosome": ["1"] * (variants - 2) + ["2"] * 2,
            "base_pair_location": list(range(100, 100 + variants)),
            "variant_id": [f"rs{(7 * i) % variants}" for i in range(variants)],
        }
    )
    calls: Any = (16 * np.arange(variants)[:, None] + np.arange(-(-samples // 4))).astype(np.uint8)
    return Part(frame, {"calls": calls}), {"calls": pl.DataFrame({"sample_id": [f"s{i}" for i in range(samples)]})}
