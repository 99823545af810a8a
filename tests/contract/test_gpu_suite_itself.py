"""The GPU tests cannot run without a GPU, but their bodies can: on the stand-in, after cuDF's translator has seen every query."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.testing.examples import assert_alike
from tests.conftest import ON_CPU

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
STAND_IN = ("-p", "tests.standin.plugin")
EXTRAS = {"mappy", "jax", "onnxruntime", "sklearn", "statsmodels"}  # of single stages; the environment with RAPIDS has none of them
# The loans in the parts that they have; in others the CPU's tests run them, and each stage as between two workers. The genomics job is
# test_budgets.py's, which looks at its results. Dask knows how to send CuPy's arrays between GPUs, not the stand-in's:
# tests/contract/test_device_memory.py has that with arrays of its own.
OTHERS = "not test_stages and not (test_jobs and (genomics or parts_1 or parts_2 or parts_7)) and not between_gpus"


def pytest_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A pytest of tests/gpu on a machine whose GPUs, if it has some, do not show."""
    environment = {name: value for name, value in os.environ.items() if name != ON_CPU} | {"CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-q", "tests/gpu", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("bodies", "least"),
    [
        pytest.param("test_stages and 7-1-device", 235, id="stages"),
        pytest.param("test_stages and 2-2-host", 235, id="stages of two workers", marks=pytest.mark.soak),
        pytest.param(OTHERS, 478, id="others"),
    ],
)
def test_every_body__works_on_the_stand_in(bodies: str, least: int) -> None:
    pytest.importorskip("xgboost")
    run = pytest_run(*STAND_IN, "-rs", "-k", bodies)
    assert run.returncode == 0, run.stdout[-4000:]
    skipped = {line.partition("could not import ")[2].split(":")[0].strip("'") for line in run.stdout.splitlines() if "SKIPPED [" in line}
    assert skipped <= EXTRAS, f"some were skipped: {run.stdout[-2000:]}"
    passed = re.search(r"^(\d+) passed.* deselected in", run.stdout, re.MULTILINE)
    assert passed is not None, run.stdout[-1000:]
    assert int(passed[1]) > least


def test_without_a_gpu__all_are_skipped_with_the_reason() -> None:
    run = pytest_run()
    assert run.returncode == 0, run.stdout[-4000:]
    assert re.search(r"^\d+ skipped in", run.stdout, re.MULTILINE)
    assert "needs a GPU; make test-gpu runs it on one" in run.stdout


@pytest.mark.parametrize(
    ("plugin", "said"), [((), "this machine shows no GPU"), (STAND_IN, "this is the stand-in")], ids=["none", "stand-in"]
)
def test_where_a_gpu_is_required__none_is_an_error(plugin: tuple[str, ...], said: str) -> None:
    run = pytest_run("--require-gpu", "--collect-only", *plugin)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--require-gpu: {said}" in run.stderr


ROWS = pl.DataFrame({"id": [1, 2, 3], "x": [1.0, 2.0, None], "score": [0.1, 0.5, 0.9]})


def test_rows_in_another_order__are_alike_unless_order_counts() -> None:
    assert_alike(ROWS.reverse(), ROWS)
    with pytest.raises(AssertionError, match="value mismatch"):
        assert_alike(ROWS.reverse(), ROWS, ordered=True)


@pytest.mark.parametrize(
    "other",
    [
        ROWS.with_columns(x=pl.col("x") * (1 + 1e-9)),
        ROWS.with_columns(x=pl.col("x").fill_null(3.0)),
        ROWS.with_columns(id=pl.col("id") + (pl.col("id") == 3)),
        ROWS.head(2),
        ROWS.with_columns(pl.col("id").cast(pl.Int32)),
        ROWS.with_columns(score=pl.lit(0.5) - pl.col("score")),
    ],
    ids=["float", "null", "integer", "rows", "type", "prediction"],
)
def test_what_differs__is_not_alike(other: pl.DataFrame) -> None:
    with pytest.raises(AssertionError, match=r"mismatch|schemas differ|answers differ|are different"):
        assert_alike(other, ROWS, modelled=("score",))


def test_tolerances__are_those_of_the_column() -> None:
    assert_alike(ROWS.with_columns(x=pl.col("x") * (1 + 1e-10)), ROWS, {"x": 1e-9})
    noise = pl.Series(np.array([1e-3, -1e-3, 1e-3]))
    assert_alike(ROWS.with_columns(score=pl.col("score") + noise), ROWS, modelled=("score",))
