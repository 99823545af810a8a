"""Matrices and simulations beside NumPy: python benchmarks/matrix.py [--works NAME ...] [--scale S] [--memory SIZE] [--runs N].

Whole processes, from the same Parquet files to a Parquet file; NumPy's BLAS has all cores. A scale of 1 takes about 6 GB of disk. With
--memory ours has one process and so much (cluster.memory_limit), and NumPy what it takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import beside, compare, python, write_result

RNG = np.random.default_rng(20261123)
PEER = "benchmarks/peers/matrix.py"
INPUTS = {
    "product": ("tall", "weights"), "gram": ("tall",), "svd": ("tall",), "solve": ("equations",), "fft": ("signals",), "heat": ("plate",),
    "n_body": ("bodies",),
}  # fmt: skip
STAGES: dict[str, dict[str, Any]] = {
    "product": {"use": "matrix_product", "from": {"left": "tall", "right": "weights"}, "key": "row", "right_key": "feature"},
    "gram": {"use": "matrix_product", "from": {"left": "tall"}, "key": "row"},
    "svd": {"use": "svd", "from": "tall", "key": "row", "components": 10},
    "solve": {"use": "linear_solve", "from": "equations", "right": "b"},
    "fft": {"use": "fft", "from": "signals", "by": "sensor", "time": "second"},
    "heat": {"use": "heat", "from": "plate", "diffusivity": 1.0, "dx": 1.0, "time_step": 0.125, "steps": 200},
    "n_body": {"use": "n_body", "from": "bodies", "gravity": 1.0, "softening": 0.01, "time_step": 0.001, "steps": 20},
}


def make(folder: Path, name: str, scale: float) -> str:
    """Write one input; returns how large it is."""
    if name == "tall":
        rows = int(2_000_000 * scale)
        frame = pl.DataFrame({"row": np.arange(rows)} | {f"x{at}": RNG.normal(size=rows) for at in range(60)})
        text = f"{rows:,} x 60"
    elif name == "weights":
        frame = pl.DataFrame({"feature": [f"x{at}" for at in range(60)]} | {f"w{at}": RNG.normal(size=60) for at in range(20)})
        text = "20 columns"
    elif name == "equations":
        size = int(5_000 * scale ** (1 / 3))
        frame = pl.DataFrame({f"x{at}": RNG.normal(size=size) for at in range(size)} | {"b": RNG.normal(size=size)})
        text = f"{size:,} unknowns"
    elif name == "signals":
        samples = int(1_000_000 * scale) // 2 * 2
        columns = {"sensor": np.repeat(np.arange(16), samples), "second": np.tile(np.arange(samples) / 1_024, 16)}
        frame = pl.DataFrame(columns | {"x": RNG.normal(size=16 * samples)})
        text = f"16 series of {samples:,}"
    elif name == "plate":
        side = int(2_000 * scale**0.5)
        y, x = np.indices((side, side))
        frame = pl.DataFrame({"x": x.ravel(), "y": y.ravel(), "temperature": RNG.normal(20, 5, side * side)})
        text = f"{side:,} x {side:,} cells, 200 steps"
    else:
        bodies = int(6_000 * scale**0.5)
        frame = pl.DataFrame({"mass": np.full(bodies, 1 / bodies)} | {way: RNG.normal(size=bodies) for way in ("x", "y", "z")})
        frame = frame.with_columns(pl.lit(0.0).alias(way) for way in ("vx", "vy", "vz"))
        text = f"{bodies:,} bodies, 20 steps"
    wide = frame.height // 1_000 if frame.height > 10_000 else 2  # many groups of few rows, of thousands of columns, are slow to open
    groups = wide if name == "equations" else 16
    frame.write_parquet(folder / f"{name}.parquet", row_group_size=max(1, -(-frame.height // groups)))
    return text


def job(folder: Path, work: str) -> Path:
    """The job file of a work."""
    given = {name: {"format": "parquet", "path": str(folder / f"{name}.parquet")} for name in INPUTS[work]}
    wanted = {"found": {"from": "done.right" if work == "svd" else "done"}}
    document = {"job": work, "results": str(folder / work), "inputs": given, "stages": [{**STAGES[work], "as": "done"}], "outputs": wanted}
    path = folder / f"{work}.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def main() -> None:
    """Make the inputs, time both and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--works", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--memory", default="")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder, wanted = Path(place), dict.fromkeys(name for work in given.works for name in INPUTS[work])
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # whose memory would else count as that of every command
            sizes = {name: pool.submit(make, folder, name, given.scale).result() for name in wanted}
        for work in given.works:
            theirs, what, path = python(PEER, work, str(folder)), f"{work}, {sizes[INPUTS[work][0]]}", job(folder, work)
            if given.memory:
                ours = python("-m", "pipeline.run", str(path), "--fresh", "--quiet", "--set", f"cluster.memory_limit={given.memory}")
                rows.append(compare(f"{what}, in {given.memory}", ours, "NumPy", theirs, given.runs))
            else:
                rows += beside(what, path, (), ("NumPy", theirs), given.runs)
    write_result("matrix", rows)


if __name__ == "__main__":
    main()
