"""The energy of a run, on recorded samples: shared by the tasks' times, written down, foreseen, and held to a budget."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.backend.sensors import GpuLook
from pipeline.job.spec import PowerBudget
from pipeline.report.finding import Evidence
from pipeline.report.findings.energy import Energy
from pipeline.report.pieces import Figure, Grid
from pipeline.running import energy
from pipeline.running.energy import Look, Meter, Task, shared, task_times
from pipeline.running.expected import over_budget
from pipeline.running.record import Account
from tests.fake_sensors import NVMLError, cycled, fake_gpus, fake_powercap, growing, no_gpus
from tests.small import inside, last_record, replace_in, run_main, write_small_job

WORDS = {"gpu": "this machine shows no NVIDIA GPU", "cpu": "no energy counter of a processor"}


def looks(*rows: tuple[float, float, float]) -> list[Look]:
    """Looks of a time, a GPU's watts and the processors' joules."""
    return [Look(at, (GpuLook(watts, 2 << 30, 0.25),), joules) for at, watts, joules in rows]


def test_energy__of_a_moment_is_shared_by_the_seconds_of_the_tasks_in_it() -> None:
    times, joules = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), {"gpu": np.array([10.0, 20.0, 40.0, 80.0])}
    tasks = [Task("a", 0.0, 2.0), Task("a", 1.0, 2.0), Task("b", 1.5, 2.25), Task("c", 2.25, 2.5)]
    found, between = shared(times, joules, tasks)
    assert found["a"]["gpu"] == pytest.approx(10 + 20 * 2 / 2.5)
    assert found["b"]["gpu"] == pytest.approx(20 * 0.5 / 2.5 + 40 * 0.5)
    assert found["c"]["gpu"] == pytest.approx(40 * 0.5)
    assert between == {"gpu": 80.0}
    assert shared(times, joules, []) == ({}, {"gpu": 150.0})


def test_energy__of_all_stages_and_of_the_time_between_is_that_of_the_run() -> None:
    random = np.random.default_rng(3)
    times = np.cumsum(random.uniform(0.1, 1, 200))
    joules = {kind: random.uniform(1, 300, 199) for kind in ("gpu", "cpu")}
    starts = random.uniform(0, times[-1], 400)
    tasks = [Task(f"s{i % 7}", start, start + random.uniform(0, 0.3)) for i, start in enumerate(starts)]
    found, between = shared(times, joules, tasks)
    for kind, values in joules.items():
        assert sum(stage[kind] for stage in found.values()) + between[kind] == pytest.approx(values.sum())


def test_document__says_joules_a_stage_and_a_million_rows() -> None:
    meter = Meter(None, None, {}, looks((0, 100, 0), (1, 300, 30), (2, 100, 50)))
    found = meter.document([Task("gwas", 0, 1), Task("write", 1, 2)], {"gwas": Account("gwas", "x", rows=2_000_000)})
    assert (found["gpu_joules"], found["cpu_joules"], found["joules"], found["most_watts"]) == (400, 50, 450, 230)
    assert found["stages"]["gwas"] == {"gpu_joules": 200, "cpu_joules": 30, "joules": 230, "joules_per_million_rows": 115}
    assert found["stages"]["write"]["joules_per_million_rows"] is None
    assert found["between_tasks"] == {"gpu": 0, "cpu": 0}
    assert found["gpus"] == [{"joules": 400, "most_watts": 300, "most_bytes": 2 << 30, "mean_busy": 0.25}]
    series = {"seconds": [0.5, 1.5], "gpu_watts": [200, 200], "cpu_watts": [30, 20], "gpu_bytes": [2 << 30] * 2, "gpu_busy": [0.25] * 2}
    assert found["series"] == series
    assert json.loads(json.dumps(found)) == found


def test_document__says_of_a_sensor_that_is_missing_why() -> None:
    meter = Meter(None, None, {"gpu": "there is none"}, looks((0, 0, 0), (2, 0, 30)))
    found = meter.document([Task("a", 0, 1)], {})
    assert found["gpu_power"] == "not measured: there is none"
    assert (found["joules"], found["cpu_joules"], "gpu_joules" in found, "gpu_watts" in found["series"]) == (30, 30, False, False)
    assert Meter(None, None, dict(WORDS)).document((), {}) == {f"{kind}_power": f"not measured: {why}" for kind, why in WORDS.items()}


def test_long_runs__are_written_as_a_few_points_and_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    many = looks(*((float(at), 100.0 + at % 2, 5.0 * at) for at in range(5_000)))
    series = Meter(None, None, {}, many).document((), {})["series"]
    assert {name: len(values) for name, values in series.items()} == dict.fromkeys(series, energy.POINTS)
    assert series["gpu_watts"] == [100.5] * energy.POINTS
    fake_gpus(monkeypatch, cycled(5_000))
    monkeypatch.setattr(energy, "MOST_LOOKS", 8)
    meter, ended = Meter.of_this_machine(), threading.Event()
    pauses: list[float] = []

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return len(pauses) > 30

    monkeypatch.setattr(ended, "wait", wait)
    meter.sample(ended)
    assert len(meter.looks) <= 8
    assert pauses[0] == energy.INTERVAL_S < pauses[-1]


def test_a_sensor_that_fails__is_missing_with_what_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(monkeypatch, [1_000, 2_000, NVMLError("GPU is lost")])
    counters = fake_powercap(monkeypatch, tmp_path)
    meter = Meter.of_this_machine()
    for joules in (1, 2, 3):
        meter.look()
        counters[0].write_text(str(1_000_000_000 + joules * 10**6), encoding="ascii")
    found = meter.document((), {})
    assert found["gpu_power"] == "not measured: NVML does not tell the power of a GPU (GPU is lost)"
    assert (found["joules"], meter.gpus) == (pytest.approx(2.0), None)


def test_tasks__are_known_by_the_prefix_of_their_keys() -> None:
    def entry(key: str, *steps: tuple[str, float, float]) -> dict[str, Any]:
        return {"key": key, "startstops": [{"action": action, "start": start, "stop": stop} for action, start, stop in steps]}

    stream = [
        entry("top_10.fit-0af3", ("transfer", 0, 1), ("compute", 1, 3)),
        entry("top_20.fit-0af4", ("compute", 2, 4)),
        entry("other.fit-0af5", ("compute", 0, 9)),
    ]
    assert task_times(stream, ["top-10", "top-20"]) == [Task("top-10", 1, 3), Task("top-20", 2, 4)]


def test_a_budget__warns_of_what_goes_beyond_it() -> None:
    used = {"joules": 1_200.0, "most_watts": 310.0, "cpu_power": "not measured: root alone"}
    assert over_budget(PowerBudget(joules=1_200, watts=310), used) == []
    assert over_budget(None, used) == over_budget(PowerBudget(), used) == []
    assert over_budget(PowerBudget(joules=1_000, watts=300), used) == [
        "power: 1,200 J where the budget is 1,000 J (power.joules; cpu not measured: root alone)",
        "power: 310 W at most, where the budget is 300 W (power.watts; cpu not measured: root alone)",
    ]
    (unknown,) = over_budget(PowerBudget(watts=1), {"gpu_power": "not measured: there is none"})
    assert unknown == "power: the budget was not checked, for nothing is measured here (gpu not measured: there is none)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small job on a machine without sensors."""
    no_gpus(monkeypatch)
    monkeypatch.setattr("pipeline.backend.sensors.POWERCAP", tmp_path / "none")
    (tmp_path / "job").mkdir()
    write_small_job(tmp_path / "job")
    return tmp_path / "job"


def test_a_run_without_sensors__says_so_in_its_record(folder: Path) -> None:
    with inside(folder):
        assert run_main("job.yaml", "--quiet").code == 0
        explained = run_main("job.yaml", "--explain").out
    found = last_record(folder / "results")["energy"]
    assert found["gpu_power"] == "not measured: this machine shows no NVIDIA GPU"
    assert found["cpu_power"].endswith("none has no energy counter of a processor")
    assert len(found) == 2
    assert "energy:" not in explained
    assert "Energy" not in (folder / "results" / "current" / "report.html").read_text()


def test_a_run_that_is_measured__has_its_joules_in_record_page_and_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (counter,) = fake_powercap(monkeypatch, folder / "powercap", packages=1)
    growing(counter, monkeypatch, watts=50)
    monkeypatch.setattr(energy, "INTERVAL_S", 0.01)
    replace_in(folder / "job.yaml", "results: results", "results: results\npower: {joules: 0.001, watts: 100000}")
    with inside(folder):
        assert run_main("job.yaml", "--backend", "cpu").code == 0
        ended = run_main("job.yaml", "--backend", "cpu", "--fresh")
        explained = run_main("job.yaml", "--backend", "cpu", "--explain").out
    record = last_record(folder / "results")
    found = record["energy"]
    assert 0 < found["joules"] == found["cpu_joules"] <= 50 * record["seconds"]
    assert set(found["stages"]) <= {"cohort", "sheet", "passed", "people", "older", "gwas"}
    assert found["stages"]["gwas"]["joules"] > 0
    spread = sum(stage["joules"] for stage in found["stages"].values()) + found["between_tasks"]["cpu"]
    assert spread == pytest.approx(found["joules"], abs=0.02)
    (warning,) = record["warnings"]
    assert warning.startswith("power: ")
    assert "where the budget is 0 J (power.joules; gpu not measured" in warning
    assert "warning: power: " in ended.out
    assert ">Energy</h2>" in (folder / "results" / "current" / "report.html").read_text()
    line = explained.strip().splitlines()[-1]
    assert line.startswith("energy: about ")
    assert "by 2 earlier runs (" in line
    assert line.endswith("; the budget is 0 J")


def test_workers_on_other_machines__are_not_measured_by_the_sensors_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(monkeypatch, cycled(5_000))
    found = Meter.of_this_machine(elsewhere=True).document((), {})
    assert found == dict.fromkeys(("gpu_power", "cpu_power"), "not measured: the workers are on other machines")


def test_a_run_that_fails__has_what_was_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (counter,) = fake_powercap(monkeypatch, folder / "powercap", packages=1)
    growing(counter, monkeypatch, watts=50)
    (folder / "sheet.csv").write_text("sample_id,age,ldl,population\ns00,old,1,north\n")
    with inside(folder):
        assert run_main("job.yaml", "--quiet", "--backend", "cpu").code == 1
    found = last_record(folder / "results")["energy"]
    assert found["joules"] > 0
    assert found["stages"] == {}


def test_the_page__draws_the_power_and_lists_the_stages() -> None:
    meter = Meter(None, None, {}, looks((0, 100, 0), (1, 300, 30), (2, 100, 50)))
    document = meter.document([Task("gwas", 0, 1)], {})
    (section,) = Energy().sections(Evidence({}, {}, {"energy": document}))
    figure, grid, gpus = section.blocks
    assert isinstance(figure, Figure)
    assert isinstance(grid, Grid)
    assert isinstance(gpus, Grid)
    assert gpus.rows == [("0", "400", "300 W", "2.15 GB", "25%")]
    assert figure.svg.count('class="line') == 2
    assert [row[0] for row in grid.rows] == ["gwas", "between tasks"]
    assert grid.rows[0][1:4] == ("200", "30.0", "")
    assert section.highlights == [("450 J", "energy of GPUs and processors")]
    assert list(Energy().sections(Evidence({}, {}, {"energy": {"gpu_power": "not measured: none"}}))) == []
