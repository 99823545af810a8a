"""The shipped jobs give the same bytes of every table, model and metric in one process and in several."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import api
from tests.clusters.hosts import published_bytes

ROOT = Path(__file__).parents[1]
JOBS = ("groups", "recommendation", "search", "tpch", "traffic", "market")


def ran(job: str, results: Path, workers: int) -> dict[str, str]:
    """What a job publishes."""
    api.load(ROOT / "jobs" / f"{job}.yaml", results=str(results), cluster__workers=workers, cluster__dashboard=False).run()
    return published_bytes(results)


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("job", [pytest.param(job, marks=[] if job in ("market", "traffic") else pytest.mark.soak) for job in JOBS])
def test_shipped_job__gives_the_same_bytes_in_one_process_and_in_three(job: str, tmp_path: Path) -> None:
    assert ran(job, tmp_path / "one", 1) == ran(job, tmp_path / "three", 3)
