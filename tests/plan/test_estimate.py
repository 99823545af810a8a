"""What --explain says of a run before it starts: by the records of earlier runs, by rates, or why nothing is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline
from pipeline.plan.curve import Curve, Range
from pipeline.plan.estimate import Estimate, Place, estimate
from pipeline.plan.estimate_text import estimate_text
from pipeline.plan.former import former_runs, input_bytes, roots
from pipeline.plan.plan import Plan
from pipeline.plan.rates import Rates
from pipeline.results.on_disk import LocalStore
from pipeline.results.store import open_store
from tests.small import inside

JOB = """\
job: sums
results: results
inputs:
  rows: {format: csv, path: rows.csv}
  names: {format: csv, path: names.csv}
stages:
  - {use: derive, from: rows, as: more, columns: {double: x * 2}}
  - {use: aggregate, from: more, as: sums, by: id, compute: {x: sum(double)}}
  - {use: join, from: {left: sums, right: names}, as: named, on: id, how: left}
outputs:
  named: {from: named}
"""
HERE = Place(workers=1, at_once=2, processes=0, limit=8 * 10**9, cores=2)

Plans = Callable[..., Plan]


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    """The plan of the job on so many rows; the folder is the results place's parent."""

    def made(rows: int, job: str = JOB) -> Plan:
        pl.DataFrame({"id": ["a"] * rows, "x": [1.5] * rows}).write_csv(tmp_path / "rows.csv")
        pl.DataFrame({"id": ["a"], "name": ["A"]}).write_csv(tmp_path / "names.csv")
        (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
        with inside(tmp_path):
            return pipeline.load("job.yaml").plan()

    return made


@pytest.fixture
def known_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start of one second, that of the runs which are left: the rates of the package are those of one machine, and change with it."""
    rates = replace(Rates.measured(), fixed=0.0, stage=0.3)
    monkeypatch.setattr(Rates, "measured", staticmethod(lambda: rates))
    monkeypatch.setattr("pipeline.plan.estimate.here", lambda: 1.0)


def left(folder: Path, plan: Plan, seconds: float, number: int, *, memory: int | None = None, **changed: Any) -> LocalStore:
    """A results place with one more run.json, as that plan's run on one worker would leave it."""
    place = folder / "results" / "runs" / f"20260101T00000{number}Z-aaaaaa"
    place.mkdir(parents=True)
    actual = {
        "seconds": seconds,
        "memory_bytes": memory or int(1e8 + seconds * 1e7),
        "opening_seconds": 0.1,
        "input_bytes": input_bytes(plan),
    }
    actual |= {"workers": 1, "at_once": 2, "processes": 0, "base_bytes": 10**8}
    accounts = {name: {"seconds": spent, "bytes": 10**6} for name, spent in (("more", 0.0), ("sums", seconds), ("named", 0.0))}
    inputs = {name: {"seconds": 0.0, "bytes": None} for name in plan.inputs}
    record = {"status": "done", "backend": "cpu", "job": plan.job.raw, "inputs": inputs, "stages": accounts, "tables": {}, "actual": actual}
    (place / "run.json").write_text(json.dumps(record | changed), encoding="utf-8")
    store = open_store(str(folder / "results"))
    assert isinstance(store, LocalStore)
    return store


def test_a_size__counts_each_stage_by_the_inputs_that_it_is_made_of(tmp_path: Path, plans: Plans) -> None:
    """All seconds went to the sums of rows, so that names are as many as before makes no difference."""
    store = left(tmp_path, plans(1_000), 2.0, 1)
    four = plans(4_003)  # the header is a row less
    (found,) = former_runs(store, four)
    assert 1 / found.size == pytest.approx(4, rel=0.01)
    assert roots(four)["named"] == {"rows", "names"}
    assert roots(four)["sums"] == {"rows"}


@pytest.mark.usefixtures("known_start")
def test_earlier_runs__say_what_one_on_more_data_takes(tmp_path: Path, plans: Plans) -> None:
    for number, rows in enumerate((1_000, 2_000, 4_000)):
        store = left(tmp_path, plans(rows), 1.0 + 2.0 * rows / 1_000, number)
    found = estimate(store, plans(8_000), HERE)
    assert found.seconds is not None
    assert found.memory is not None
    assert found.seconds.value == pytest.approx(17.0, rel=0.02)
    assert found.memory.value == pytest.approx(1e8 + 17e7, rel=0.02)
    assert found.by.startswith("3 earlier runs of 0.13 to 0.5 times the data, each size foretold by the others within ")
    money = found.money(3.6)
    assert money is not None
    assert money.value == pytest.approx(found.seconds.value * 3.6 / 3_600)
    assert found.document(3.6)["money"] == pytest.approx(0.017, rel=0.02)
    assert set(found.document(None)) == {"by", "seconds", "seconds_range", "memory_bytes", "memory_bytes_range"}


@pytest.mark.usefixtures("known_start")
def test_workers_that_a_running_cluster_has__are_taken_as_they_were(tmp_path: Path, plans: Plans) -> None:
    """Runs of one worker with two tasks at once; four workers have eight."""
    for number, rows in enumerate((1_000, 4_000)):
        store = left(tmp_path, plans(rows), 1.0 + 2.0 * rows / 1_000, number)
    as_before, four = estimate(store, plans(8_000), Place(None, None)), estimate(store, plans(8_000), Place(4, None))
    assert as_before.seconds is not None
    assert four.seconds is not None
    assert as_before.seconds.value == pytest.approx(17.0, rel=0.02)
    assert four.seconds.value == pytest.approx(5.0, rel=0.05)
    assert (four.place.workers, four.place.at_once) == (4, 8)
    money = four.money(3_600.0)
    assert money is not None
    assert money.value == pytest.approx(4 * four.seconds.value)


@pytest.mark.usefixtures("known_start")
def test_tables_beyond_memory__take_no_more_than_there_is_and_longer(tmp_path: Path, plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.4 MB of rows, where a quarter of 1 MB is for a table; a run that had as little as there is says how long it takes by itself."""
    monkeypatch.setattr("pipeline.plan.rates.here", lambda: 1.0)
    rows, limit = 100_000, 10**7
    little = replace(HERE, limit=limit)
    store = open_store(str(tmp_path / "results"))
    held, on_disk = (estimate(store, plans(rows, JOB + more), little) for more in ("", "cluster: {kind: local, table_memory: 1MB}\n"))
    assert held.memory is not None
    assert held.memory.value > limit
    assert held.seconds is not None
    assert on_disk.memory == Range(limit, limit, held.memory.high)
    assert on_disk.seconds == Range(2 * held.seconds.value, held.seconds.low, 2 * held.seconds.high)
    assert on_disk.by == f"{held.by}; 2 times that, as tables beyond memory lie on disk"
    assert "warning: memory is more than a worker has" in estimate_text(held, None)
    assert "warning: memory may be more than a worker has" in estimate_text(on_disk, None)
    plan = plans(rows, JOB + "cluster: {kind: local, table_memory: 1MB}\n")
    for number, memory in enumerate((9 * 10**8, 10**8)):
        again = estimate(left(tmp_path, plan, 4.0, number, memory=memory), plan, replace(HERE, limit=2 * 10**8))
        assert again.memory is not None
        assert again.memory.value == 2 * 10**8
        assert ("2 times that" in again.by) is (number == 0)


def test_runs_of_other_stages_formats_or_ends__say_nothing(tmp_path: Path, plans: Plans) -> None:
    plan = plans(1_000)
    store = left(tmp_path, plans(1_000, JOB.replace("x * 2", "x * 3")), 9.0, 1)
    left(tmp_path, plan, 9.0, 2, status="failed")
    left(tmp_path, plan, 9.0, 3, backend="gpu")
    (tmp_path / "results" / "runs" / "20260101T000009Z-aaaaaa").mkdir()
    assert former_runs(store, plan) == []
    found = estimate(store, plans(1_000), Place(None, None))
    assert found.seconds is None
    assert found.why.startswith("no run of these stages is in ")
    assert found.document(1.0) == {"unknown": found.why}


def test_what_is_not_known__is_said_with_the_reason_and_a_remedy(tmp_path: Path, plans: Plans) -> None:
    text = estimate_text(estimate(open_store(str(tmp_path / "none")), plans(10), Place(None, None)), 3.2)
    assert re.match(r"expected: unknown: no run of these stages is in .*/none, and the cluster is asked for its workers when a run ", text)
    assert text.endswith("Run the job on a part of its data, into the same results place, and its record will say.")


def test_a_stage_without_a_rate__leaves_the_whole_unknown(tmp_path: Path, plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Rates({}, {}, 0.5, 0.0, 0.01, 1.0, 1.0, 1e8, 2.0, 3.0, 2.0, "a machine", 0.01)
    monkeypatch.setattr(Rates, "measured", staticmethod(lambda: rates))
    found = estimate(open_store(str(tmp_path / "none")), plans(10), HERE)
    assert found.why.endswith("and no rate was measured of the format csv")


def test_the_text__says_parts_memory_money_and_how_many_workers_pay() -> None:
    curve = Curve(start=1.0, work=20.0, process=0.0)
    spent, held = Range(11.0, 10.0, 12.0), Range(9e9, 7e9, 11e9)
    found = Estimate(HERE, spent, held, "2 earlier runs of 0.5 times the data", "", curve, {"sums": 9.0, "more": 0.0}, {"sums": 5e6})
    assert estimate_text(found, 3.6).splitlines() == [
        "expected: 11.0 s (10.0 to 12.0), by 2 earlier runs of 0.5 times the data",
        "    start 1.0 s, work 10.0 s with 2 tasks at once; most in sums 9.0 s",
        "    workers pay up to 2: this machine has no more cores",
        "    memory of a worker: 9.00 GB (7.00 to 11.00), where it has 8.0 GB; most in sums 5.0 MB",
        "    warning: memory is more than a worker has, and it will spill or be killed: give it more, or more workers",
        "    money: 0.0110 (0.0100 to 0.0120), 1 worker at 3.6 an hour",
    ]
    assert "workers pay up to 2" in estimate_text(found, None)
    assert "money" not in estimate_text(found, None)


def test_workers_elsewhere__pay_until_a_doubling_saves_less_than_a_tenth() -> None:
    """By 8 + 96/n: 56 for 2, 32 for 4, 20 for 8, 14 for 16, 11 for 32, 9.5 for 64, 8.75 for 128."""
    place = Place(workers=4, at_once=8)
    found = Estimate(place, Range(20.0, 19.0, 21.0), None, "runs", "", Curve(8.0, 192.0, 0.0))
    assert found.pays_up_to() == (64, "the next doubling saves less than 10%")
    assert place.of(16).at_once == 32
    assert HERE.of(16).at_once == 2
    assert Estimate(place).pays_up_to() is None
