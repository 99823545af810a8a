"""The shipped jobs on the GPU give what they give on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.api import Run, load, open_run
from pipeline.testing.examples import assert_alike
from tests.example_tables import EIGENVECTORS, IMPORTANCE, P_VALUES

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SCAN = ("p_value", "neg_log_10_p_value", "beta", "standard_error", "statistic", "hwe_p_value")
AXES = [f"pc{i}" for i in range(1, 11)]
# The scan's covariates are the axes of ancestry, so it cannot agree better than they do.
TOLERANCES = {**dict.fromkeys(SCAN, P_VALUES * 100), **dict.fromkeys(AXES, EIGENVECTORS)}
MODELLED = ("prediction", *IMPORTANCE)
PARTS = {"genomics": ["inputs.cohort.parts"], "loans": ["inputs.loans.parts", "inputs.performance.parts"]}


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, stand_in: bool) -> Callable[..., Run]:
    """A shipped job's run, by job, backend and parts; the same one is not run twice. On the stand-in it runs in threads of this process."""
    folder, cluster = tmp_path_factory.mktemp("jobs"), {"cluster": "local"} if stand_in else {}

    def ran(job: str, backend: str, parts: int | None = None) -> Run:
        place = folder / f"{job}-{backend}-{parts}"
        if not (place / "current.json").exists():
            words = {name.replace(".", "__"): parts for name in PARTS[job]} if parts else {}
            load(ROOT / "jobs" / f"{job}.yaml", backend=backend, results=str(place), **words, **cluster).run()
        return open_run(place)

    return ran


@pytest.mark.parametrize("parts", [None, 1, 2, 7], ids=lambda parts: f"parts_{parts}")
@pytest.mark.parametrize("job", PARTS)
def test_a_shipped_job__gives_what_it_gives_on_the_cpu(job: str, parts: int | None, run: Callable[..., Run], job_backend: str) -> None:
    expected, found = run(job, "cpu"), run(job, job_backend, parts)
    assert found.record["backend"] == job_backend
    assert_runs_alike(found, expected)


def assert_runs_alike(found: Run, expected: Run) -> None:
    """Assert that every output and measure is the same, to what arithmetic leaves open."""
    assert found.outputs == expected.outputs
    for output in expected.outputs:
        ours, theirs = found.table(output).to_polars(), expected.table(output).to_polars()
        assert_alike(ours, theirs, TOLERANCES, modelled=MODELLED)
    assert_metrics_alike(found.metrics, expected.metrics)


def assert_metrics_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that rows are equal and every measure is within 0.01."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_metrics_alike(found[name], value)
        elif name == "rows":
            assert found[name] == value
        else:
            assert found[name] == pytest.approx(value, abs=0.01), name


@pytest.mark.parametrize("job", PARTS)
def test_the_record__names_the_gpu_and_the_versions(job: str, run: Callable[..., Run], job_backend: str, stand_in: bool) -> None:
    record = run(job, job_backend).record
    assert record["cluster"]["kind"] == ("cuda" if job_backend == "gpu" and not stand_in else "local")
    assert bool(record["machine"]["gpus"]) == (job_backend == "gpu")
    assert ("cudf-polars-cu13" in record["versions"]) or job_backend == "cpu"
    described = json.loads((Path(run(job, job_backend).path) / "run.json").read_text(encoding="utf-8"))
    assert described["status"] == "done"
