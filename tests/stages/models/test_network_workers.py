"""A network trained by processes of several workers: the loss curve of one device, and the same model where one of them is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import pipeline
from pipeline.errors import DataError, StageError
from pipeline.stage import Context
from pipeline.tables.part import Schema
from pipeline.tables.session import ClusterSession, Session
from pipeline.testing.stages import SEED
from tests.small import inside
from tests.stages.models.test_network import ROWS, stage_for, train
from tests.stages.models.training import people

pytestmark = [pytest.mark.long, pytest.mark.process]

OVER = {"workers": 2, "data": 2, "model": 2}
SHORT: dict[str, Any] = {"rounds": 4, "batch_size": 32, "early_stopping_rounds": 4}
JOB = """\
job: learning
seed: 5
results: results
cluster: {kind: local, workers: 2, threads: 1}
inputs: {people: {format: parquet, path: people.parquet}}
stages:
  - use: network
    from: people
    as: model
    key: id
    target: binary
    objective: binary
    features: [a, b, group]
    categorical: [group]
    rounds: 15
    batch_size: 64
    layers: [16]
    parallel: {data: 2, workers: 2}
outputs: {predictions: {from: model}, history: {from: model.history}}
"""


def ranks() -> list[psutil.Process]:
    """The processes that train below this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found += [process] if "pipeline.stages.models._network.rank" in process.cmdline() else []
        except psutil.Error:
            continue
    return found


@pytest.mark.soak
def test_workers__have_the_loss_curve_of_one_device_and_say_what_it_costs(workers: ClusterSession) -> None:
    found, expected = (train(stage_for("binary", **SHORT, **over), session=workers) for over in ({"parallel": OVER}, {}))
    np.testing.assert_allclose(found.tables["history"]["value"].to_numpy(), expected.tables["history"]["value"].to_numpy(), rtol=1e-5)
    cost = found.metrics["parallel"]
    assert cost["devices"] == 4
    assert cost["bytes_sent"] > 0
    assert cost["step_ms"] == pytest.approx(cost["compute_ms"] + cost["communication_ms"])
    assert train(stage_for("binary", **SHORT, parallel=OVER), session=Session()).model == found.model, "of two processes of one worker"
    assert not ranks()


def test_an_error_of_all_processes__is_the_runs_and_none_of_them_stays(workers: ClusterSession) -> None:
    stage = stage_for("regression", rounds=4, optimizer="sgd", learning_rate=10, clip=None, parallel={"workers": 2, "data": 2})
    with pytest.raises(DataError, match="no finite number: training does not hold together"):
        train(stage, session=workers)
    assert not ranks()


def trained(folder: Path) -> tuple[bytes, int]:
    """The model that the job publishes, and how many rounds were there when training went on; nothing of it stays."""
    people(3000).write_parquet(folder / "people.parquet")
    (folder / "job.yaml").write_text(JOB)
    with inside(folder):
        run = pipeline.load("job.yaml").run()
    assert not ranks()
    told = run.record["stages"]["model"]
    assert told["parallel"] == run.metrics["model"]["parallel"]
    assert told["parallel"]["devices"] == 2
    return (Path(run.path) / "models" / "model.safetensors").read_bytes(), told["counts"].get("rounds_found", 0)


def killed(folder: Path, dead: list[str]) -> None:
    """Kill a process, and then a worker, each as soon as something was kept by those that are there."""
    for what in ("process", "worker"):
        kept = known = {path.stat().st_mtime_ns for path in folder.glob("*")}
        while kept <= known or not ranks():
            time.sleep(0.01)
            kept = {path.stat().st_mtime_ns for path in folder.glob("[0-9a-f]*")}
        process = ranks()[-1]
        victim = process if what == "process" else process.parent()
        assert victim is not None
        victim.kill()
        victim.wait(60)
        process.wait(60)  # it does not outlive its task
        dead.append(what)


@pytest.mark.soak
def test_training__goes_on_to_the_same_model_where_a_process_and_then_a_worker_is_lost(tmp_path: Path) -> None:
    dead = list[str]()
    for name in ("undisturbed", "disturbed"):
        (tmp_path / name).mkdir()
    threading.Thread(target=killed, args=(tmp_path / "disturbed" / "results" / "checkpoints", dead), daemon=True).start()
    model, there = trained(tmp_path / "disturbed")
    assert dead == ["process", "worker"]
    assert there > 0
    assert (model, 0) == trained(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"workers": 2}, "there are 1 devices in all, which 2 workers cannot share. Give data: 2, say"),
        ({"workers": 2, "pipeline": 2}, "layers that follow one another are of one worker, which 2 workers cannot share"),
    ],
)
def test_workers__refuse_what_they_cannot_share(over: dict[str, Any], said: str) -> None:
    stage = stage_for("regression", layers=[12, 8], parallel=over)
    with pytest.raises(StageError, match=said):
        stage.plan({"rows": Schema(ROWS.schema)}, Context("tested", SEED, Session()))
