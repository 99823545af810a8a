"""The tables of benchmarks/gpu.py: stages, Parquet, training and the shipped jobs on a GPU beside the CPU, where RAPIDS is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.gpu_timing import seconds
from benchmarks.harness import python, timed
from pipeline.api import load
from pipeline.backend.devices import Backend
from pipeline.backend.engines import collect
from pipeline.registry import stage_class
from pipeline.tables.session import Session
from pipeline.testing.stages import run_stage

ROOT = Path(__file__).resolve().parent.parent
SEED = 20261121
FEATURES = 28
PARTS = 4
STAGES: dict[str, dict[str, Any]] = {
    "filter": {"where": "x0 > 0 and day < 200"},
    "derive": {"columns": {"ratio": "x0 / (x1 + 2)", "high": "case when x2 > 0.3 then 1 else 0 end"}},
    "aggregate": {"by": ["place"], "compute": {"rows": "size()", "mean": "mean(x0)", "most": "max(x1)", "last": "max(day)"}},
    "join": {"on": ["place"], "how": "left"},
    "sort": {"by": ["place", "-x0"]},
    "drop_duplicates": {"columns": ["place", "day"], "order_by": "x0"},
    "standardize": {"columns": ["x0", "x1", "x2"]},
}
"""Stages that are timed, with their parameters."""


@dataclass(frozen=True)
class Sizes:
    """How much of each; the CPU's side is left out above `cpu_rows`, where it would take longer than the rest."""

    rows: int = 10_000_000
    rounds: int = 100
    loans: tuple[int, ...] = (1_000_000, 10_000_000, 100_000_000)
    cpu_rows: int = 10_000_000
    cluster: str = "auto"
    runs: int = 3


def frame(rows: int) -> pl.DataFrame:
    """Numbers, a key of many values, another of few, and a binary label that depends on the numbers."""
    rng = np.random.default_rng(SEED)
    columns: dict[str, Any] = {f"x{i}": rng.random(rows, np.float32) - np.float32(0.5) for i in range(FEATURES)}
    label = columns["x0"] + columns["x1"] * columns["x2"] + 0.3 * (rng.random(rows, np.float32) - 0.5) > 0
    columns |= {"id": np.arange(rows), "place": rng.integers(0, max(2, rows // 100), rows), "day": rng.integers(0, 365, rows)}
    return pl.DataFrame(columns | {"label": label.astype(np.int8)})


def rows_of(sizes: Sizes) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Everything that is timed, by name, in the order of how much it needs."""
    data = frame(sizes.rows)
    places = data.select("place").unique(maintain_order=True).with_columns(name=pl.col("place") * 2)
    for name, parameters in STAGES.items():
        given = {"left": data, "right": places} if name == "join" else {"rows": data}
        yield f"{name}, {sizes.rows:,} rows", both(sizes, sizes.rows, stage(name, parameters, given, PARTS))
    yield f"Parquet read and summed, {sizes.rows:,} x {FEATURES}", partial(parquet, data, sizes)
    learned = {"target": "label", "key": "id", "objective": "binary", "split": None, "rounds": sizes.rounds, "exclude": ["place", "day"]}
    yield (
        f"training, {sizes.rows:,} x {FEATURES}, {sizes.rounds} rounds",
        both(sizes, sizes.rows, stage("xgboost", learned, {"rows": data}, 1)),
    )
    yield "genomics job", shipped(sizes, 0, "genomics", {})
    for count in sizes.loans:
        yield f"loans job, {count:,} loans", partial(loans, count, sizes)


def stage(name: str, parameters: dict[str, Any], given: dict[str, pl.DataFrame], parts: int) -> Callable[[Backend], Any]:
    """A stage on tables in memory, in this process."""

    def run(backend: Backend) -> Any:
        session = Session()
        session.backend = backend
        return run_stage(stage_class(name).model_validate(parameters), given, parts, session)

    return run


def job(name: str, cluster: str, words: dict[str, str]) -> Callable[[Backend], Any]:
    """A shipped job from its files to its results, its cluster's start included."""

    def run(backend: Backend) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            words_of_run = {"backend": backend, "cluster": cluster, "results": folder, **words}
            return load(ROOT / "jobs" / f"{name}.yaml", **words_of_run).run(fresh=True).record["seconds"]

    return run


def shipped(sizes: Sizes, rows: int, name: str, words: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """A shipped job on both, and on the GPU with its frames left there between queries."""

    def row() -> dict[str, Any]:
        found, there = both(sizes, rows, job(name, sizes.cluster, words))(), job(name, sizes.cluster, {**words, "frames": "device"})
        times = [round(seconds(lambda: there("gpu"), on_gpu=True), 4) for _ in range(max(1, sizes.runs))]
        return {**found, "gpu_s_with_frames_there": times}

    return row


def both(sizes: Sizes, rows: int, run: Callable[[Backend], Any]) -> Callable[[], dict[str, Any]]:
    """Seconds on the GPU, after a run that does not count (unless it is the only one), and on the CPU."""

    def row() -> dict[str, Any]:
        first = round(seconds(lambda: run("gpu"), on_gpu=True), 4)
        again = [round(seconds(lambda: run("gpu"), on_gpu=True), 4) for _ in range(sizes.runs)]
        found: dict[str, Any] = {"first_s": first, "gpu_s": again or [first]}
        if rows <= sizes.cpu_rows:
            found["cpu_s"] = [round(seconds(lambda: run("cpu"), on_gpu=False), 4) for _ in range(max(1, sizes.runs))]
            found["times"] = round(float(np.median(found["cpu_s"]) / np.median(found["gpu_s"])), 2)
        return found

    return row


def parquet(data: pl.DataFrame, sizes: Sizes) -> dict[str, Any]:
    """All columns of a file read and added up, with GB of the file a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        data.write_parquet(path, row_group_size=1 << 20)
        size = path.stat().st_size
        found = both(sizes, sizes.rows, lambda backend: collect(pl.scan_parquet(path).select(pl.all().sum()), backend))()
    return {**found, "gb_per_s": round(size / 1e9 / float(np.median(found["gpu_s"])), 3)}


def loans(count: int, sizes: Sizes) -> dict[str, Any]:
    """The loans job on so many loans, made first."""
    with tempfile.TemporaryDirectory() as folder:
        files = str(max(8, count // 1_000_000))
        timed(python("data/make_loans.py", "--scale", str(count), "--out", folder, "--files", files))
        words = {f"inputs__{table}__path": f"{folder}/{table}" for table in ("loans", "performance")}
        return shipped(sizes, count, "loans", words)()
