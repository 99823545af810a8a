"""A cluster whose processes differ is refused before its first task, and a worker that joins later leaves where it differs."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.backend.devices import Backend
from pipeline.clusters.alike import CODE, Alike, code_fingerprint, differences, packages
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.scheduler import Scheduler
from pipeline.errors import PlaceError
from tests.clusters.running import LOOKS, PAUSE_S, one_more_worker

ROOT = Path(__file__).parents[2]
HERE = {"python": "3.11", "polars": "1.44.0", "xgboost": "3.2.0", "jax": "0.10", "cupy-cuda13x": "14.2", CODE: "a"}


@pytest.mark.parametrize(
    ("there", "backend", "told"),
    [
        ({}, "cpu", ""),
        ({"polars": "1.40.0"}, "cpu", "polars 1.40.0 (here 1.44.0)"),
        ({"python": "3.12", CODE: None}, "cpu", "python 3.12 (here 3.11), this project's code missing (here a)"),
        ({"jax": None, "cupy-cuda13x": None}, "cpu", ""),
        ({"jax": "0.9"}, "cpu", "jax 0.9 (here 0.10)"),
        ({"jax": None, "cupy-cuda13x": None}, "gpu", "cupy-cuda13x missing (here 14.2)"),
        ({"xgboost": None}, "cpu", "xgboost missing (here 3.2.0)"),
    ],
)
def test_differences__are_told_in_words(there: dict[str, str | None], backend: Backend, told: str) -> None:
    assert differences(HERE, HERE | there, backend) == told


def test_differences__are_of_what_was_asked_for() -> None:
    assert differences({**HERE, CODE: None}, {CODE: None}, "cpu") == ""
    assert differences({**HERE, "xgboost": None}, HERE, "cpu") == "xgboost 3.2.0 (here none)"


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a scheduler with a worker like us: both are this process."""
    from distributed import LocalCluster

    options = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "protocol": "tcp"}
    with LocalCluster(processes=False, n_workers=1, threads_per_worker=1, **options) as running:
        yield running.scheduler_address


def environment(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*folders, ROOT]))}


def with_other_polars(place: Path) -> dict[str, str]:
    """What a worker sees where another Polars is installed."""
    told = place / "polars-0.1.dist-info" / "METADATA"
    told.parent.mkdir()
    told.write_text("Metadata-Version: 2.1\nName: polars\nVersion: 0.1\n")
    return environment(place)


def with_other_code(place: Path) -> dict[str, str]:
    """What a worker sees where this project stands with a change."""
    shutil.copytree(ROOT / "pipeline", place / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    with (place / "pipeline" / "errors.py").open("a") as file:
        file.write("# a change\n")
    return environment(place)


def without_this_project(place: Path) -> dict[str, str]:
    """What a worker sees where this project is not installed."""
    (place / "pipeline.py").write_text("")
    return environment(place)


@pytest.mark.process
def test_open_cluster__refuses_workers_that_differ(scheduler: str, tmp_path: Path) -> None:
    other, none = tmp_path / "other", tmp_path / "none"
    other.mkdir()
    none.mkdir()
    first, second = (
        one_more_worker(scheduler, place, environment=made)
        for place, made in ((other, with_other_code(other)), (none, without_this_project(none)))
    )
    with first, second:
        told = rf"this project's code ([0-9a-f]{{12}}|too old, or missing,) \(here {code_fingerprint()}\); so do 1 more"
        whole = rf"^cluster: the worker at tcp://127\.0\.0\.1:\d+ differs from this machine: {told}\. Install the same there"
        with pytest.raises(PlaceError, match=whole), open_cluster(Scheduler(address=scheduler), "cpu"):
            raise AssertionError


@pytest.mark.process
def test_a_worker_that_joins_later__leaves_where_it_differs(scheduler: str, tmp_path: Path) -> None:
    with open_cluster(Scheduler(address=scheduler), "cpu") as cluster:
        with one_more_worker(scheduler, tmp_path, environment=with_other_polars(tmp_path), awaited=False) as process:
            for _ in range(LOOKS):
                if any("joined later" in text for text in cluster.warnings) and process.poll() is not None:
                    break
                time.sleep(PAUSE_S)
        (warning,) = (text for text in cluster.warnings if "joined later" in text)
        assert len(cluster.client.scheduler_info(n_workers=-1)["workers"]) == 1
    assert re.search(r"which joined later, was refused: polars 0\.1 \(here [0-9.]+\)$", warning)


def test_open_cluster__leaves_no_rule_for_workers_behind(scheduler: str) -> None:
    from distributed import Client

    with Client(scheduler) as client:
        with open_cluster(Scheduler(address=scheduler), "cpu"):
            assert client.run_on_scheduler(rules) == 1
        assert client.run_on_scheduler(rules) == 0


def rules(dask_scheduler: Any) -> int:
    return sum("alike" in name for name in dask_scheduler.worker_plugins)


@pytest.mark.parametrize(("lives", "closed"), [(True, 1), (False, 0)])
def test_alike__what_a_killed_run_left_behind_refuses_nobody(lives: bool, closed: int) -> None:
    worker = FakeWorker(lives)
    asyncio.run(Alike({"polars": "0.1"}, packages(), "cpu", "client", encrypted=False).setup(worker))
    assert (worker.closed, len(worker.told)) == (closed, closed)


@pytest.mark.parametrize(
    ("worker", "scheduler", "encrypted", "told"),
    [
        ("tcp://192.0.2.7:1", "tcp://192.0.2.1:8786", True, 1),
        ("ucxx://192.0.2.7:1", "ucxx://192.0.2.1:8786", True, 1),
        ("tcp://192.0.2.7:1", "tcp://192.0.2.1:8786", False, 0),
        ("tls://192.0.2.7:1", "tls://192.0.2.1:8786", True, 0),
        ("tcp://127.0.0.1:1", "tcp://127.0.0.1:8786", True, 0),
    ],
)
def test_alike__a_worker_in_plain_text_from_another_machine_than_the_scheduler_leaves(
    worker: str, scheduler: str, encrypted: bool, told: int
) -> None:
    """As that worker sees it: a scheduler at its own address is on its machine."""
    joining = FakeWorker(lives=True)
    joining.address, joining.scheduler = worker, FakeScheduler(scheduler)
    asyncio.run(Alike({}, [], "cpu", "client", encrypted).setup(joining))
    assert joining.closed == told
    assert ["plain text from another machine" in text for text in joining.told] == [True] * told


class FakeScheduler:
    def __init__(self, address: str) -> None:
        self.address = address

    async def run_function(self, **_: bytes) -> dict[str, bool]:
        """As it answers whether the client is there."""
        return {"result": True}


class FakeWorker:
    address = "tcp://10.0.0.1:1"

    def __init__(self, lives: bool) -> None:
        self.lives, self.closed, self.told = lives, 0, list[str]()
        self.scheduler: Any = self

    async def run_function(self, **_: bytes) -> dict[str, bool]:
        """As the scheduler answers whether the client is there."""
        return {"result": self.lives}

    def log_event(self, _topic: str, text: str) -> None:
        self.told.append(text)

    async def close(self, **_: object) -> None:
        self.closed += 1
