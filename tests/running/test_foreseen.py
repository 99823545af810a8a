"""run.json says what was expected and what it took, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from pipeline.clusters.cuda import Cuda
from pipeline.clusters.kind import ClusterKind
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.plan.estimate import Place
from pipeline.running import foreseen
from pipeline.running.foreseen import bytes_of, place_of
from tests.small import inside, last_record, replace_in, run_main, write_small_job


class Elsewhere(ClusterKind):
    """Workers on other machines, between two and six of them as there is work."""

    elsewhere: ClassVar[bool] = True
    kind: str = "elsewhere"
    threads: int = 2
    memory_limit: str = "4GB"
    workers: Any = SimpleNamespace(minimum=2, maximum=6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_small_job(tmp_path)
    replace_in(tmp_path / "job.yaml", "results: results", "results: results\nprice: 3.6")
    return tmp_path


def test_a_run__has_what_it_was_expected_to_take_and_what_it_took(folder: Path) -> None:
    with inside(folder):
        assert run_main("job.yaml", "--quiet", "--backend", "cpu").code == 0
        explained = run_main("job.yaml", "--explain", "--backend", "cpu").out
        assert run_main("job.yaml", "--quiet", "--backend", "cpu", "--fresh").code == 0
    record = last_record(folder / "results")
    expected, actual = record["expected"], record["actual"]
    assert expected["by"] == "one earlier run of as much data"
    assert expected["seconds_range"][0] <= expected["seconds"] <= expected["seconds_range"][1]
    assert actual["seconds"] >= record["seconds"] > 0
    assert actual["money"] == pytest.approx(3.6 * actual["seconds"] / 3_600, abs=1e-6)
    assert actual["memory_bytes"] >= actual["base_bytes"] > 10**7
    assert actual["input_bytes"] == {
        name: (folder / file).stat().st_size for name, file in (("cohort", "cohort.vcf"), ("sheet", "sheet.csv"))
    }
    assert actual["of_expected"]["seconds"] == pytest.approx(actual["seconds"] / expected["seconds"], abs=0.01)
    assert set(actual["of_expected"]) == {"seconds", "memory_bytes", "money"}
    assert "expected: " in explained
    assert "\n    money: " in explained


def test_explain__as_json_has_what_is_expected_and_check_has_not(folder: Path) -> None:
    with inside(folder):
        planned = json.loads(run_main("job.yaml", "--explain", "--json", "--backend", "cpu").out)
        checked = json.loads(run_main("job.yaml", "--check", "--json", "--backend", "cpu").out)
    assert planned["expected"].keys() & {"unknown", "seconds"}
    assert "expected" not in checked


def test_a_price__is_more_than_nothing(folder: Path) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--check", "--set", "price=0")
    assert ended.code == 2
    assert "price: " in ended.err


def test_places__are_the_workers_of_the_cluster_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreseen, "cores", lambda: 4)
    monkeypatch.setattr(foreseen, "gpu_count", lambda: 0)
    monkeypatch.setattr(foreseen, "host_bytes", lambda: 16 * 10**9)
    assert place_of(Local()) == Place(1, 4, 0, 16 * 10**9, 4)
    assert place_of(Local(workers=2)) == Place(2, 4, 2, 8 * 10**9, 4)
    assert place_of(Local(workers=8, threads=2, memory_limit="2GB")) == Place(8, 4, 8, 2 * 10**9, 4)
    assert place_of(Scheduler(address="tcp://there:8786")) == Place(None, None)
    assert place_of(Cuda()) == Place(1, 4, 1, 16 * 10**9, 4)
    assert place_of(Elsewhere()) == Place(6, 12, 0, 4 * 10**9)


@pytest.mark.parametrize("text", ["8GB", "1.5 GiB", "512 MB", "100kB", "64KiB", "2TB", "100 B"])
def test_bytes_of_a_size__are_those_of_dask(text: str) -> None:
    from dask.utils import parse_bytes

    assert bytes_of(text) == parse_bytes(text)
    assert bytes_of(None) == 0
