"""Runs of little data go without a cluster, and give what they give on one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

from pipeline.api import LoadedJob
from pipeline.clusters.local import Local
from pipeline.formats.csv import CsvInput
from pipeline.formats.vcf import VcfInput
from pipeline.job.load import load
from pipeline.running import little
from pipeline.running.certificate import ATTEMPT
from pipeline.running.little import is_little, over_workers
from pipeline.stages.models.network import Network
from pipeline.stages.models.retrain import Retrain
from tests.small import current_run, inside, last_record, run_main, write_small_job

OF_A_TIME = ("run.json", "report.html", "certificate.json")
LIBRARIES = ("bokeh", "dask", "distributed", "http.client", "tornado", "xgboost")
CODE = f"""
import sys
from pipeline.run import main
code = main(["job.yaml", "--quiet"])
print(code, [name for name in {LIBRARIES} if name in sys.modules])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_small_job(tmp_path)
    return tmp_path


def little_with(folder: Path, *overrides: str) -> bool:
    with inside(folder):
        job = load("job.yaml", overrides)
        return is_little(LoadedJob(job).plan(here=False), job.cluster)


@pytest.mark.process
def test_a_small_run__imports_no_dask(folder: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", CODE], cwd=folder, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "0 []"


def test_a_run_without_a_cluster__gives_what_it_gives_on_one(folder: Path) -> None:
    found, said = {}, {}
    with inside(folder):
        for name, workers in (("threads", ()), ("dask", ("--set", "cluster={kind: local, workers: 1}"))):
            assert run_main("job.yaml", "--quiet", "--out", name, *workers).code == 0
            record = last_record(folder / name)
            assert record["cluster"]["dask"] == (name == "dask")
            found[name] = files(current_run(folder / name))
            said[name] = json.dumps(counted(record), sort_keys=True)
    assert found["threads"] == found["dask"]
    assert said["threads"] == said["dask"]


def files(run: Path) -> dict[str, tuple[int, str]]:
    """The rows and checksum of every file of a run that is of its results; names without what tells attempts apart."""
    listed = json.loads((run / "manifest.json").read_text())["files"]
    return {ATTEMPT.sub("", one["path"]): (one["rows"], one["sha256"]) for one in listed if one["path"] not in OF_A_TIME}


def counted(record: dict[str, Any]) -> dict[str, Any]:
    """What a record says that is not of its time."""
    timed = {"seconds", "places"}
    groups = {group: record[group] for group in ("inputs", "stages", "tables")}
    return {group: {name: {k: v for k, v in one.items() if k not in timed} for name, one in of.items()} for group, of in groups.items()}


@pytest.mark.parametrize(
    "words",
    ["cluster=local", "cluster={threads: 3}", "cluster.dashboard=false"],
)
def test_a_small_job__goes_without_a_cluster(words: str, folder: Path) -> None:
    assert little_with(folder, words)


@pytest.mark.parametrize(
    "words",
    ["cluster={workers: 1}", "cluster={workers: 2}", "cluster={memory_limit: 4GB}", "cluster={dashboard: true}"],
)
def test_what_only_a_cluster_has__gets_one(words: str, folder: Path) -> None:
    assert not little_with(folder, words)


def test_a_network_over_processes__gets_a_cluster() -> None:
    keys = {"target": "y", "key": "id", "objective": "regression"}
    alone, over = (Network.model_validate(keys | {"parallel": parallel}) for parallel in (None, {"data": 2, "workers": 2}))
    assert not over_workers(alone)
    assert over_workers(over)
    assert over_workers(Retrain.model_construct(model=over, champion="", when="test", metric="rmse"))


def test_large_inputs__get_a_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for most in ("MOST_BYTES", "LEAST_BYTES"):
        monkeypatch.setattr(little, most, sum((folder / name).stat().st_size for name in ("cohort.vcf", "sheet.csv")))
    assert little_with(folder)
    with (folder / "sheet.csv").open("a") as file:
        file.write("s00,1,2,x\n")
    assert not little_with(folder)


def test_inputs__may_be_as_large_as_memory_has_room_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum((folder / name).stat().st_size for name in ("cohort.vcf", "sheet.csv"))
    monkeypatch.setattr(little, "LEAST_BYTES", 1)
    for room, fits in ((40 * size, True), (40 * size - 40, False)):
        monkeypatch.setattr(Local, "memory", lambda _self, _backend, room=room: room)
        assert little_with(folder) == fits


def test_a_small_file_of_very_many_rows__gets_a_cluster(tmp_path: Path) -> None:
    pl.select(x=pl.repeat(1, 20_000_000, dtype=pl.Int64)).write_parquet(tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size < 1_000_000
    job = "{job: j, inputs: {rows: {format: parquet, path: rows.parquet}}, outputs: {sorted: {from: sorted}}, results: results,"
    (tmp_path / "job.yaml").write_text(job + " stages: [{use: sort, from: rows, as: sorted, by: x}]}")
    with patch.object(Local, "memory", lambda _self, _backend: 4 * 160_000_000):
        assert little_with(tmp_path)
    with patch.object(Local, "memory", lambda _self, _backend: 4 * 160_000_000 - 4):
        assert not little_with(tmp_path)


def test_dense_inputs__may_be_ten_times_as_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for most in ("MOST_BYTES", "LEAST_BYTES"):
        monkeypatch.setattr(little, most, 20 * sum((folder / name).stat().st_size for name in ("cohort.vcf", "sheet.csv")) // 100)
    assert not little_with(folder)
    monkeypatch.setattr(VcfInput, "dense", True)
    monkeypatch.setattr(CsvInput, "dense", True)
    assert little_with(folder)
