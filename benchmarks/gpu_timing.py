"""How work on a GPU is timed: the card and the versions, its best bandwidth and throughput, medians after a warm-up, the memory's peak."""

from __future__ import annotations

import json
import logging
import operator
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LOG = logging.getLogger(__name__)
RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = (
    *("numpy", "scipy", "cupy-cuda13x", "numba", "numba-cuda", "polars", "dask", "distributed", "cudf-cu13", "cudf-polars-cu13", "xgboost"),
    *("rmm-cu13", "dask-cuda"),
)


def versions() -> dict[str, str]:
    """Of the libraries that are installed, and of Python."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def card() -> dict[str, Any]:
    """Name, memory, multiprocessors and driver of the card that CuPy sees."""
    import cupy

    about, (free, total) = cupy.cuda.runtime.getDeviceProperties(0), cupy.cuda.runtime.memGetInfo()
    return {
        "name": about["name"].decode(),
        "capability": f"{about['major']}.{about['minor']}",
        "multiprocessors": about["multiProcessorCount"],
        "gib": round(total / 2**30, 1),
        "free_gib": round(free / 2**30, 1),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
    }


def until_done() -> None:
    """Wait until the card has done all that was asked."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def seconds(run: Callable[[], Any], *, on_gpu: bool) -> float:
    """Seconds of one run, until its results are there."""
    started = time.perf_counter()
    run()
    if on_gpu:
        until_done()
    return time.perf_counter() - started


def timed(run: Callable[[], Any], runs: int) -> dict[str, Any]:
    """A run on the card: the first, which compiles what is missing, the ones that count, and the most bytes of the memory pool."""
    import cupy

    pool = cupy.get_default_memory_pool()
    first = seconds(run, on_gpu=True)
    pool.free_all_blocks()
    before = pool.total_bytes()
    several = [seconds(run, on_gpu=True) for _ in range(runs)]
    peak = pool.total_bytes() - before
    pool.free_all_blocks()
    return {"first_s": round(first, 5), "gpu_s": [round(each, 6) for each in several], "peak_mib": round(peak / 2**20, 1)}


def best(size: int, runs: int = 10) -> dict[str, float]:
    """What the card reaches: bytes a second of a copy of `size` bytes within its memory, operations a second of products of matrices."""
    import cupy

    source, side = cupy.zeros(size, cupy.uint8), max(8, int((size / 64) ** 0.5) // 8 * 8)
    found = {"bytes": 2 * size / _median(source.copy, runs)}
    for dtype in ("float64", "float32"):
        matrix = cupy.ones((side, side), dtype)
        found[dtype] = 2 * side**3 / _median(partial(operator.matmul, matrix, matrix), runs)
    return found


def _median(run: Callable[[], Any], runs: int) -> float:
    seconds(run, on_gpu=True)
    return statistics.median(seconds(run, on_gpu=True) for _ in range(runs))


class Results:
    """The result file of a benchmark, written anew after every row: what was measured stays, should the machine be taken away."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self.path = folder / f"gpu-{stamp}.json"
        machine = {"platform": platform.platform(), "cores": os.cpu_count()}
        self.document: dict[str, Any] = {"benchmark": "gpu", "time": stamp, "machine": machine, "versions": versions(), **about, "rows": []}

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row and say it."""
        self.document["rows"].append(row)
        self.write()
        print(said(row), flush=True)

    def measure(self, work: str, row: Callable[[], dict[str, Any]]) -> None:
        """Keep what a function measures, or why it could not: the others are measured all the same, and the command fails at the end."""
        try:
            found = row()
        except Exception as error:
            LOG.exception("%s failed", work)
            found = {"failed": f"{type(error).__name__}: {error}"}
        self.add({"work": work, **found})

    @property
    def failed(self) -> list[str]:
        """The works that could not be measured."""
        return [row["work"] for row in self.document["rows"] if "failed" in row]

    def write(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")


def said(row: dict[str, Any]) -> str:
    """A row in a line."""
    words = [f"{name} {value}" for name, value in row.items() if name not in ("work", "gpu_s", "cpu_s")]
    for name in ("gpu_s", "cpu_s"):
        if name in row:
            words.insert(0, f"{name[:3].upper()} {statistics.median(row[name]):.4g} s")
    return f"{row['work']}: {', '.join(words)}"
