"""What a worker has and nobody uses."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.clusters import freed
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local


def test_give_back__is_for_workers_near_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[int]()
    monkeypatch.setattr(freed, "give_back", lambda: given.append(1))
    freed._look(500, 1_000)
    assert not given
    freed._look(501, 1_000)
    assert given


@pytest.mark.process
def test_give_back__is_looked_for_by_a_worker_that_has_a_limit() -> None:
    with open_cluster(Local(workers=1, threads=1, dashboard=False, memory_limit="1GB"), "cpu") as found:
        assert [*found.client.run(looks).values()] == [True]


def looks(dask_worker: Any) -> bool:
    """Whether a worker looks."""
    return bool(dask_worker.periodic_callbacks["pipeline-freed"].is_running())
