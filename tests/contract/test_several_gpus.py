"""A run on two GPUs, by the stand-in: what does not need a query over both of them goes on beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from distributed import Client
from polars.testing import assert_frame_equal

import pipeline.tables.spread
from pipeline.api import load, open_run
from pipeline.backend.frames import DeviceFrame
from tests.standin.machine import gpu

pytestmark = pytest.mark.contract

LOOKS = 1_500
JOB = """
job: beside
backend: gpu
cluster: {{address: "{address}", insecure: true}}
results: {folder}/results
report: false
inputs:
  sales: {{path: {folder}/sales, format: parquet, parts: 3}}
  places: {{path: {folder}/places.csv, format: csv}}
stages:
  - use: aggregate
    from: sales
    as: totals
    by: [place]
    compute: {{sold: {{function: sum, of: amount}}}}
  - use: derive
    from: totals
    as: doubled
    columns: {{twice: "sold * 2"}}
outputs:
  doubled: {{from: doubled}}
  places: {{from: places}}
"""


@pytest.fixture
def address() -> Iterator[str]:
    """A scheduler with two workers of three threads, all of this process, which is a machine with a GPU."""
    from distributed import LocalCluster

    here = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with gpu(), LocalCluster(processes=False, n_workers=2, threads_per_worker=3, protocol="tcp://", **here) as cluster:
        yield cluster.scheduler_address


def test_a_query_over_all_gpus__keeps_nothing_else_waiting(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sales").mkdir()
    for i in range(3):
        pl.DataFrame({"place": [0, 1, i], "amount": [1.0, 2.0, 3.0]}).write_parquet(tmp_path / "sales" / f"{i}.parquet")
    (tmp_path / "places.csv").write_text("place,name\n0,a\n1,b\n2,c\n", encoding="utf-8")
    waited = list[bool]()

    def collected(query: pl.LazyFrame, engine: Engine) -> pl.DataFrame:
        """The query, once the text that does not need it is read; what is submitted for an output comes after all stages."""
        engine.client.run(work)
        for _ in range(LOOKS):
            if engine.scheduler.run_on_scheduler(is_read):
                break
            time.sleep(0.02)
        waited.append(engine.scheduler.run_on_scheduler(is_read))
        return query.collect()

    monkeypatch.setattr(pipeline.tables.spread, "spread_engine", partial(Engine, Client(address, set_as_default=False)))
    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", collected)
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(address=address, folder=tmp_path), encoding="utf-8")
    load(job).run()
    assert waited == [True]
    run = open_run(tmp_path / "results")
    assert dict(run.table("doubled").to_polars().select("place", "twice").rows()) == {0: 12, 1: 18, 2: 6}
    assert run.record["stages"]["doubled"]["seconds"] >= 0.2


def work() -> None:
    """A GPU's share of a query."""
    time.sleep(0.1)


def is_read(dask_scheduler: Any) -> bool:
    """On the scheduler: whether the input that is text was read."""
    tasks = dask_scheduler.task_prefixes.get("places.read_part")
    return bool(tasks and tasks.state_counts.get("memory"))


class Engine:
    """In the place of cuDF's; `scheduler` is a client that is asked how far the run is."""

    def __init__(self, scheduler: Client, client: Any) -> None:
        self.scheduler, self.client = scheduler, client

    def shutdown(self) -> None:
        """Nothing is to be given back."""
        self.scheduler.close()


LEARNED = """
job: learned
backend: gpu
cluster: {{address: "{address}", insecure: true}}
frames: {frames}
results: {folder}/{frames}
report: false
inputs:
  rows: {{path: {folder}/rows, format: parquet, parts: 2}}
stages:
  - use: derive
    from: rows
    as: known
    columns: {{ratio: "a / (b + 2)"}}
  - {{use: xgboost, from: known, as: model, target: label, key: id, objective: binary, split: split, rounds: 5, workers: all}}
outputs:
  predictions: {{from: model}}
"""


def test_training_over_gpus__takes_features_where_they_lie(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(1)
    rows = pl.DataFrame({"id": np.arange(400), "a": rng.random(400), "b": rng.random(400)})
    rows = rows.with_columns(label=(pl.col("a") > pl.col("b")).cast(pl.Int8), a=pl.when(pl.col("id") % 7 > 0).then(pl.col("a")))
    (tmp_path / "rows").mkdir()
    for number, split in enumerate(("train", "test")):  # one part to learn from: threads of one process cannot train together
        rows.slice(number * 300, 300).with_columns(split=pl.lit(split)).write_parquet(tmp_path / "rows" / f"{number}.parquet")
    taken, matrix = list[int](), DeviceFrame.matrix

    def counted(frame: DeviceFrame, names: Sequence[str]) -> Any:
        """The matrix, of which it is noted how many features it has."""
        taken.append(len(names))
        return matrix(frame, names)

    monkeypatch.setattr(DeviceFrame, "matrix", counted)
    found = []
    for frames in ("host", "device"):
        job = tmp_path / f"{frames}.yaml"
        job.write_text(LEARNED.format(address=address, folder=tmp_path, frames=frames), encoding="utf-8")
        load(job).run()
        found.append(open_run(tmp_path / frames).table("predictions").to_polars())
    assert_frame_equal(*found, check_exact=True)
    assert taken == [3, 3, 3], "of the part that is learned from, and of both that are predicted"
