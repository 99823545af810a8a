"""The shipped jobs give the same bytes of every table, model and metric in one process and in several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.hosts import published_bytes
from tests.shipped import from_loans, ran

JOBS = ("groups", "images", "recommend", "search", "text", "tpch", "traffic", "market", "matrix", "simulation", "risk")


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the loans job publishes, for those that read it."""
    place = tmp_path_factory.mktemp("loans")
    ran("loans", str(place))
    return place


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("job", [pytest.param(job, marks=[] if job == "simulation" else pytest.mark.soak) for job in JOBS])
def test_shipped_job__gives_the_same_bytes_in_one_process_and_in_three(job: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    told = from_loans(job, str(request.getfixturevalue("loans"))) if from_loans(job, "") else {}
    ran(job, str(tmp_path / "one"), **told)
    ran(job, str(tmp_path / "three"), **{"cluster.workers": 3, **told})
    assert published_bytes(tmp_path / "one") == published_bytes(tmp_path / "three")
