"""docs/scaling.md and its figures are what the newest result file of benchmarks/scaling.py says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scaling import SIZES, WORKERS, Trial, stops, trials
from benchmarks.scaling_page import BEGIN, END, STRONG, figure, measured, of_kind
from pipeline.plan.curve import Curve

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    newest = sorted((ROOT / "benchmarks" / "results").glob("scaling-*.json"))[-1]
    found: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8"))
    return found


def test_the_page__says_what_was_measured(result: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    again = "Write it anew: python benchmarks/scaling.py --draw benchmarks/results/scaling-TIME.json"
    assert page.partition(BEGIN)[2].partition(END)[0] == measured(result), again
    for found in result["rows"]:
        drawn = (ROOT / "docs" / f"scaling-{found['work']}.svg").read_text(encoding="utf-8")
        assert drawn == figure(found, result["machine"]["cores"]), again


def test_trials__are_strong_weak_and_of_more_data_each_once() -> None:
    found = trials("loans")
    assert len(found) == len({(trial.size, trial.workers) for trial in found})
    rows = [vars(trial) for trial in found]
    assert [row["workers"] for row in of_kind("strong", rows)] == list(WORKERS)
    assert [(row["size"], row["workers"]) for row in of_kind("weak", rows)] == [(number, number) for number in WORKERS]
    assert [row["size"] for row in of_kind("data", rows)] == list(SIZES)
    assert Trial("loans", "weak", STRONG, STRONG) in found


def test_adding_a_worker__stops_paying_at_the_root_of_work_over_process() -> None:
    found = {row["size"]: row["with_a_core_each"] for row in stops(Curve(start=1.0, work=16.0, process=0.25))}
    assert found == {1: 8, 8: 23, 64: 64, 512: 181}
