"""A host that is cut off in the middle of an exchange or of a training, healed or not, changes nothing in what is published."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.clusters.hosts import published_bytes
from tests.faults.driving import Driver
from tests.faults.places import PLACES, ROOT, command
from tests.small import replace_in

pytestmark = [pytest.mark.process, pytest.mark.soak]

LOANS, HEALED_S = 60_000, 5.0
PARTS, ROWS, FEATURES = 4, 5_000, 12
OVER_WORKERS = """\
job: over_workers
seed: 7
results: results
inputs:
  rows: {format: parquet, path: ROWS}
stages:
  - use: xgboost
    from: rows
    as: lateness
    key: id
    target: label
    objective: binary
    rounds: 3000
    early_stopping_rounds: null
    learning_rate: 0.02
    workers: all
outputs:
  predictions: {from: lateness}
"""
LOG = logging.getLogger(__name__)  # shown with --log-cli-level=INFO
Event = dict[str, Any]


def exchanging(event: Event) -> bool:
    """Some tasks of the aggregation, which brings each loan's months together, are done, and some not."""
    return bool(event["event"] == "stage" and event["stage"] == "history" and 0 < event["done"] < event["tasks"])


def training(event: Event) -> bool:
    """Some rounds are trained."""
    return bool(event["event"] == "round" and event["stage"] == "lateness" and event["round"] >= 5)


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The loans job over data whose months lie in other files than their loans, so that they are exchanged."""
    folder = tmp_path_factory.mktemp("loans")
    words = ["--scale", str(LOANS), "--out", str(folder), "--files", "4", "--spread"]
    subprocess.run([sys.executable, "data/make_loans.py", *words], cwd=ROOT, check=True, capture_output=True)
    made = folder / "loans.yaml"
    made.write_bytes((ROOT / "jobs" / "loans.yaml").read_bytes())
    for table in ("loans", "performance"):
        replace_in(made, f"path: data/loans/{table}}}", f"path: {folder / table}}}")
    return made


@pytest.fixture(scope="module")
def over_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that trains over both hosts' workers."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "rows").mkdir()
    dice = np.random.default_rng(7)
    for number in range(PARTS):
        features = dice.normal(size=(ROWS, FEATURES))
        columns = {f"x{at}": features[:, at] for at in range(FEATURES)}
        late = (features[:, 0] + features[:, 1] * features[:, 2] + dice.normal(size=ROWS) > 0).astype(np.int64)
        split = dice.choice(["train", "validation", "test"], ROWS, p=[0.7, 0.15, 0.15])
        frame = pl.DataFrame({"id": np.arange(ROWS) + number * ROWS, **columns, "label": late, "split": split})
        frame.write_parquet(folder / "rows" / f"{number}.parquet")
    (folder / "job.yaml").write_text(OVER_WORKERS.replace("ROWS", str(folder / "rows")))
    return folder / "job.yaml"


def ran(job: Path, out: Path, moment: Callable[[Event], bool] | None = None, *, healed: bool = False) -> tuple[int | None, str, float]:
    """A run on two hosts, cut off at a moment: its exit code (None after the driver's limit), its errors, its seconds."""
    out.mkdir()
    log = out / "said.log"

    def come() -> bool:
        assert moment is not None
        return any(moment(json.loads(line)) for line in log.read_text().splitlines() if line.endswith("}"))

    with PLACES["hosts"](out) as ground, Driver(command(ground, job, out / "results", "seed=3"), log) as driver:
        assert ground.cable is not None
        if moment is not None:
            assert driver.wait_for(come), driver.errors()
            ground.cable("down")
            LOG.info("cut off after: %s", log.read_text().splitlines()[-1])
            if healed and driver.wait_for(partial(passed, time.monotonic() + HEALED_S)):
                ground.cable("up")
        return driver.wait(), driver.errors(), round(time.monotonic() - driver.began, 1)


def passed(until: float) -> bool:
    """Whether it is that time."""
    return time.monotonic() >= until


@pytest.mark.parametrize("healed", [True, False], ids=["healed", "not healed"])
@pytest.mark.parametrize("moment", [exchanging, training], ids=["exchange", "training"])
def test_cut_off__host_changes_nothing(loans: Path, moment: Callable[[Event], bool], healed: bool, tmp_path: Path) -> None:
    code, said, usual = ran(loans, tmp_path / "undisturbed")
    assert code == 0, said
    code, said, took = ran(loans, tmp_path / "cut", moment, healed=healed)
    LOG.info("%s s, undisturbed %s s", took, usual)
    assert code == 0, said
    assert published_bytes(tmp_path / "cut" / "results") == published_bytes(tmp_path / "undisturbed" / "results")


@pytest.mark.parametrize("healed", [True, False], ids=["healed", "not healed"])
def test_cut_off__host_of_a_training_over_workers_is_said_in_a_line_or_changes_nothing(
    over_workers: Path, healed: bool, tmp_path: Path
) -> None:
    code, said, usual = ran(over_workers, tmp_path / "undisturbed")
    assert code == 0, said
    code, said, took = ran(over_workers, tmp_path / "cut", training, healed=healed)
    LOG.info("%s s, undisturbed %s s, code %s: %s", took, usual, code, said[:300])
    if code != 0:
        first, second = [line for line in said.splitlines() if line]
        assert code == 1
        assert "stages.lateness: training over workers failed, one of them may have been lost" in first
        assert "no result was published" in second
    else:
        assert published_bytes(tmp_path / "cut" / "results") == published_bytes(tmp_path / "undisturbed" / "results")
