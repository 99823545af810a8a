"""The GPU's benchmark runs to its end on the stand-in, so that a GPU's first minute is not spent on mistakes of typing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.gpu_kernels import OF_PAIRS, OF_VARIANTS
from benchmarks.gpu_parity import MORE_OF_THE_SAME
from benchmarks.gpu_tables import STAGES

pytestmark = pytest.mark.contract

# What a machine that was set up for CuPy has not.
ABSENT = [
    "numba",
    "llvmlite",
    "polars",
    "pyarrow",
    "dask",
    "distributed",
    "xgboost",
    "cudf_polars",
    "rmm",
    "pylibcudf",
    "pydantic",
    "pandas",
]
ABSENT += ["threadpoolctl", "fsspec", "rich", "ruamel", "jinja2", "bokeh", "isal", "psutil", "pynvml", "sklearn"]
RUN = "run_name='__main__'"
PLAINLY_BY_NUMBA = {"Hardy-Weinberg", "clumping around one lead", "logistic GWAS"}
"""On the stand-in a kernel's plain version runs in the GPU's place, and that of these calls what is compiled for a CPU."""
ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_the_benchmark__runs_to_its_end_on_the_stand_in(tmp_path: Path) -> None:
    assert find_spec("xgboost"), "the jobs train"
    command = [sys.executable, "benchmarks/gpu.py", "--stand-in", "--runs", "1", "--out", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, (run.stdout + run.stderr)[-4000:]
    (file,) = tmp_path.glob("gpu-*.json")
    found = json.loads(file.read_text())
    works = [row["work"] for row in found["rows"]]
    assert found["stand_in"] is True
    assert found["card"]["name"] == "stand-in for an H200"
    assert {f"parity: {name}" for name in {*OF_VARIANTS, *OF_PAIRS} - MORE_OF_THE_SAME} <= set(works)
    for name in (*OF_VARIANTS, *OF_PAIRS, *STAGES, "genomics job", "loans job", "training", "Parquet"):
        assert any(work.startswith(name) for work in works), name
    assert all("gpu_s" in row or "apart" in row for row in found["rows"])
    assert all("gpu_s_with_frames_there" in row for row in found["rows"] if " job" in row["work"])


def test_the_kernels__need_numpy_scipy_and_cupy_alone(tmp_path: Path) -> None:
    program = ["benchmarks/gpu.py", "--stand-in", "--part", "kernels", "--runs", "1", "--out", str(tmp_path)]
    code = f"import runpy, sys; sys.modules.update(dict.fromkeys({ABSENT})); sys.argv = {program}; runpy.run_path(sys.argv[0], {RUN})"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    (file,) = tmp_path.glob("gpu-*.json")
    rows = json.loads(file.read_text())["rows"]
    failed = {row["work"].removeprefix("parity: ").rsplit(", ", 1)[0]: row["failed"] for row in rows if "failed" in row}
    assert all("numba" in why for why in failed.values()), run.stderr[-4000:]
    assert {name.split(",")[0] for name in failed} <= PLAINLY_BY_NUMBA
    assert len(rows) > 2 * len(OF_VARIANTS)
    assert not any("cpu_s" in row for row in rows)


def test_without_a_gpu__it_is_refused() -> None:
    run = subprocess.run([sys.executable, "benchmarks/gpu.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "--stand-in tries all of it" in run.stderr
