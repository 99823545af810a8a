"""Moments of a run, by what it says and writes, and runs on two workers or two hosts of which one is lost at such a moment."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil

from tests.faults.driving import Driver
from tests.faults.places import PLACES, ROOT, Ground, command
from tests.small import replace_in

LOANS, HEALED_S = 200_000, 5.0
PARTS, ROWS, FEATURES = 4, 5_000, 12
ROUNDS = 3000
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
    rounds: ROUNDS
    early_stopping_rounds: null
    learning_rate: 0.02
    workers: all
outputs:
  predictions: {from: lateness}
"""
LOG = logging.getLogger(__name__)  # shown with --log-cli-level=INFO
Event = dict[str, Any]
Moment = Callable[[list[Event], Path], bool]


def _of_history(events: list[Event], least: int) -> bool:
    """Some tasks of the aggregation, which reads the months and brings each loan's together, are done, and some not."""
    return any(event["event"] == "stage" and event["stage"] == "history" and least <= event["done"] < event["tasks"] for event in events)


def _of_rounds(events: list[Event], share: float) -> bool:
    """So large a share of the rounds is trained."""
    return any(event["event"] == "round" and event["round"] >= max(1, share * event["rounds"]) for event in events)


MOMENTS: Mapping[str, Moment] = {
    "read": lambda events, _: _of_history(events, 0),
    "exchange": lambda events, _: _of_history(events, 1),
    "first round": lambda events, _: _of_rounds(events, 0),
    "middle round": lambda events, _: _of_rounds(events, 0.5),
    "last round": lambda events, _: _of_rounds(events, 0.9),
    "checkpoint": lambda _, results: any((results / "checkpoints").glob("*")),
    "write": lambda _, results: any(results.glob("runs/*/*/part-*")),
}


def loans_job(folder: Path) -> Path:
    """The loans job over data whose months lie in other files than their loans, so that they are exchanged; it trains long enough."""
    words = ["--scale", str(LOANS), "--out", str(folder), "--files", "4", "--spread"]
    subprocess.run([sys.executable, "data/make_loans.py", *words], cwd=ROOT, check=True, capture_output=True)
    made = folder / "loans.yaml"
    made.write_bytes((ROOT / "jobs" / "loans.yaml").read_bytes())
    for table in ("loans", "performance"):
        replace_in(made, f"path: data/loans/{table}}}", f"path: {folder / table}}}")
    replace_in(made, "    rounds: 200\n    early_stopping_rounds: 20\n", "    rounds: 300\n    early_stopping_rounds: null\n")
    return made


def over_workers_job(folder: Path) -> Path:
    """A job that trains over all workers."""
    (folder / "rows").mkdir()
    dice = np.random.default_rng(7)
    for number in range(PARTS):
        features = dice.normal(size=(ROWS, FEATURES))
        columns = {f"x{at}": features[:, at] for at in range(FEATURES)}
        late = (features[:, 0] + features[:, 1] * features[:, 2] + dice.normal(size=ROWS) > 0).astype(np.int64)
        split = dice.choice(["train", "validation", "test"], ROWS, p=[0.7, 0.15, 0.15])
        frame = pl.DataFrame({"id": np.arange(ROWS) + number * ROWS, **columns, "label": late, "split": split})
        frame.write_parquet(folder / "rows" / f"{number}.parquet")
    (folder / "job.yaml").write_text(OVER_WORKERS.replace("ROUNDS", str(ROUNDS)).replace("ROWS", str(folder / "rows")))
    return folder / "job.yaml"


def ran(job: Path, out: Path, place: str, moment: str = "", *, healed: bool = False) -> tuple[int | None, str, float]:
    """A run there that loses a worker or a host at a moment: its exit code (None after the driver's limit), its errors, its seconds.

    Of two workers the one that has computed most is frozen, of two hosts the second is cut off.
    """
    out.mkdir()
    log, results = out / "said.log", out / "results"

    def come() -> bool:
        return MOMENTS[moment]([json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")], results)

    with PLACES[place](out) as ground, Driver(command(ground, job, results, "seed=3"), log) as driver:
        if moment:
            assert driver.wait_for(come), f"{moment} never came: {driver.errors()}"
            heal = _lose(ground, driver)
            LOG.info("%s: lost after: %s", moment, log.read_text().splitlines()[-1])
            if healed and driver.wait_for(partial(passed, time.monotonic() + HEALED_S)):
                heal()
        return driver.wait(), driver.errors(), round(time.monotonic() - driver.began, 1)


def _lose(ground: Ground, driver: Driver) -> Callable[[], object]:
    """Lose a worker or a host; gives what brings it back."""
    if cable := ground.cable:
        cable("down")
        return partial(cable, "up")
    workers = [psutil.Process(pid) for pid in ground.workers(driver.process.pid)]
    busiest = max(workers, key=lambda process: process.cpu_times().user)
    busiest.suspend()
    return partial(busiest.resume)


def passed(until: float) -> bool:
    """Whether it is that time."""
    return time.monotonic() >= until
