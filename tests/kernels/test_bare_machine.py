"""Kernels and the seam to the GPU import where only NumPy and SciPy are installed: CuPy alone is enough to run them on a GPU."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline.backend
import pipeline.kernels
import pipeline.kernels.device

ROOT = Path(__file__).parents[2]
ABSENT = ["numba", "llvmlite", "polars", "pyarrow", "dask", "distributed", "xgboost", "cudf_polars", "rmm", "pydantic", "pandas", "pynvml"]
ABSENT += ["threadpoolctl", "fsspec", "rich", "ruamel", "jinja2", "bokeh", "isal", "psutil", "sklearn"]
MODULES = [
    found.name
    for package in (pipeline.kernels, pipeline.kernels.device, pipeline.backend)
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    if not found.ispkg
]


@pytest.mark.process
def test_kernels_and_backend__import_with_numpy_and_scipy_alone() -> None:
    imports = f"[importlib.import_module(name) for name in {MODULES}]"
    code = f"import importlib, sys; sys.modules.update(dict.fromkeys({ABSENT})); {imports}"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
