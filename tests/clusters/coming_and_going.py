"""A program: a model trained over workers that come and go, and over two that stay; it fails where they differ."""

from __future__ import annotations

import importlib
import time

import dask

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.local import Local
from pipeline.clusters.scaling import Scaling
from tests.clusters.running import LOOKS, PAUSE_S
from tests.stages.models.training import people, stage_for, train

HASTY = {"distributed.adaptive.interval": "100ms", "distributed.adaptive.wait-count": 1}


def wait_for(cluster: Cluster, workers: int) -> None:
    for _ in range(LOOKS):
        if len(cluster.client.nthreads()) == workers:
            return
        time.sleep(PAUSE_S)
    raise AssertionError(f"there are never {workers} workers")


def main() -> None:
    """Train over both."""
    importlib.import_module("distributed")  # which has its own settings known, before some of them are changed
    data, sizes, stage = people(600), [120] * 5, stage_for("binary", workers="all", early_stopping_rounds=None, rounds=5)
    spec = Local(workers=Scaling(minimum=1, maximum=2), threads=1, dashboard=False, tls=True)
    with dask.config.set(HASTY), open_cluster(spec, "cpu") as cluster:
        session = cluster.session()
        held = session.submit(bytes, 1_000_000, stage="held")
        wait_for(cluster, 1)
        with session.fixed_workers("trained"):
            assert {address[:16] for address in cluster.client.nthreads()} == {"tls://127.0.0.1:"}
            model = train(stage, data, sizes, session).model
            assert len(cluster.client.nthreads()) == 2
        wait_for(cluster, 1)
        assert len(session.value(held)) == 1_000_000
        assert (session.workers, session.notes) == (2, [])
        assert cluster.place() == {"kind": "local", "workers": 2, "threads_per_worker": 1, "minimum_workers": 1, "dask": True}
    with open_cluster(Local(workers=2, threads=1, dashboard=False), "cpu") as cluster:
        assert train(stage, data, sizes, cluster.session()).model == model


if __name__ == "__main__":
    main()
