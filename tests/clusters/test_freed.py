"""What a worker has and nobody uses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.backend.glibc import freed_stays
from pipeline.clusters import freed
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local


def test_give_back__is_for_workers_near_their_limit_whose_training_needs_it_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    given, now, worker = list[float](), iter([1.0, 2.0, 3.0, 4.0, 23.0, 24.0, 25.0, 26.0]), freed.Freed(1_000)
    monkeypatch.setattr(freed, "give_back", lambda: given.append(1))
    monkeypatch.setattr(freed, "time", SimpleNamespace(monotonic=now.__next__))
    worker.look(500)
    with freed_stays():
        worker.look(501)
    assert not given
    worker.look(501)  # at 3, done at 4: nothing before 24
    worker.look(501)
    assert len(given) == 1
    worker.look(501)
    assert len(given) == 2


@pytest.mark.process
def test_give_back__is_looked_for_by_a_worker_that_has_a_limit() -> None:
    with open_cluster(Local(workers=1, threads=1, dashboard=False, memory_limit="1GB"), "cpu") as found:
        assert [*found.client.run(looks).values()] == [True]


def looks(dask_worker: Any) -> bool:
    """Whether a worker looks."""
    return bool(dask_worker.periodic_callbacks["pipeline-freed"].is_running())
