"""What workers of a run on GPUs are told, on workers of every kind that can be started without one."""

from __future__ import annotations

import pytest

import pipeline.clusters.workers
from pipeline.backend.devices import Backend
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler

HERE = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "protocol": "tcp"}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every time that a worker of this process set its allocator; each shows one GPU."""
    times: list[str] = []
    monkeypatch.setattr(pipeline.clusters.workers, "share_memory", lambda: times.append("shared"))
    monkeypatch.setattr("pipeline.backend.devices._visible_gpus", lambda: ["0"])
    return times


@pytest.mark.parametrize(("backend", "times"), [("gpu", 1), ("cpu", 0)])
def test_a_worker_of_this_process__shares_its_gpus_memory(backend: Backend, times: int, shared: list[str]) -> None:
    with open_cluster(Local(dashboard=False), backend):
        assert len(shared) == times


def test_a_worker_that_a_user_started__shares_its_gpus_memory_also_after_a_run_on_the_cpu(shared: list[str]) -> None:
    from distributed import LocalCluster

    with LocalCluster(processes=False, n_workers=1, threads_per_worker=1, **HERE) as running:
        spec: ClusterKind = Scheduler(address=running.scheduler_address)
        with open_cluster(spec, "cpu"):
            assert shared == []
        with open_cluster(spec, "gpu"):
            assert shared == ["shared"]
        with open_cluster(spec, "gpu"):
            assert shared == ["shared"], "it is told once"
