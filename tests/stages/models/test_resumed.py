"""A run that is killed in the middle of a training goes on from where it stood, and publishes the same model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import pipeline
from tests.small import inside, start
from tests.stages.models.training import people

pytestmark = [pytest.mark.long, pytest.mark.process]

JOB = """\
job: learning
seed: 5
results: results
checkpoints: {auto: false}
inputs: {people: {format: parquet, path: people.parquet}}
stages:
  - {use: fill_missing, from: people, as: filled, columns: [a], method: mean, fit_where: "split = 'train'"}
  - {use: MODEL, from: filled, as: model, key: id, target: binary, objective: binary, features: [a, b, group], categorical: [group], MORE}
outputs: {predictions: {from: model}, history: {from: model.history}}
"""
MODELS = {
    "network": "rounds: 60, layers: [16], batch_size: 32, early_stopping_rounds: 60",
    "xgboost": "rounds: 3000, learning_rate: 0.01, max_depth: 5, early_stopping_rounds: 3000",
}


@pytest.mark.parametrize("use", [pytest.param("network", marks=pytest.mark.soak), "xgboost"])
def test_a_run_killed_in_training__goes_on_to_the_same_model(use: str, tmp_path: Path) -> None:
    people(4000).write_parquet(tmp_path / "people.parquet", row_group_size=1000)
    (tmp_path / "job.yaml").write_text(JOB.replace("MODEL", use).replace("MORE", MODELS[use]))
    process, kept = start("job.yaml", "--quiet", cwd=tmp_path), tmp_path / "results" / "checkpoints"
    deadline = time.monotonic() + 300
    while not any(kept.glob("[0-9a-f]*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    said = process.communicate(timeout=60)
    assert any(kept.glob("[0-9a-f]*")), f"it ended before it kept anything: {said}"
    with inside(tmp_path):
        resumed, anew = pipeline.load("job.yaml").run(), pipeline.load("job.yaml", results="fresh").run()
    counts: list[Any] = [run.record["stages"]["model"]["counts"] for run in (resumed, anew)]
    assert counts[0].pop("rounds_found") > 0
    assert counts[0] == counts[1]
    for suffix in ("json", {"network": "safetensors", "xgboost": "ubj"}[use]):
        assert (Path(resumed.path) / f"models/model.{suffix}").read_bytes() == (Path(anew.path) / f"models/model.{suffix}").read_bytes()
    for table in ("predictions", "history"):
        assert resumed.table(table).to_polars().equals(anew.table(table).to_polars())
    assert not kept.exists()
