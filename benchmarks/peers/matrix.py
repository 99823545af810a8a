"""What a user of NumPy writes: python benchmarks/peers/matrix.py WORK FOLDER. BLAS has all cores; benchmarks/matrix.py makes the files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl


def product(folder: Path) -> pl.DataFrame:
    """A B."""
    left, right = pl.read_parquet(folder / "tall.parquet"), pl.read_parquet(folder / "weights.parquet")
    found = left.drop("row").to_numpy() @ right.drop("feature").to_numpy()
    return left.select("row").hstack(pl.from_numpy(found, right.columns[1:]))


def gram(folder: Path) -> pl.DataFrame:
    """A'A."""
    values = pl.read_parquet(folder / "tall.parquet").drop("row")
    numbers = values.to_numpy()
    return pl.from_numpy(numbers.T @ numbers, values.columns)


def svd(folder: Path) -> pl.DataFrame:
    """Right vectors of the first ten singular values."""
    values = pl.read_parquet(folder / "tall.parquet").drop("row").to_numpy()
    return pl.from_numpy(np.linalg.svd(values, full_matrices=False).Vh[:10].T)


def solve(folder: Path) -> pl.DataFrame:
    """A x = b."""
    values = pl.read_parquet(folder / "equations.parquet")
    return pl.DataFrame({"b": np.linalg.solve(values.drop("b").to_numpy(), values["b"].to_numpy())})


def fft(folder: Path) -> pl.DataFrame:
    """Amplitudes of every series."""
    found = []
    for (name,), series in pl.read_parquet(folder / "signals.parquet").sort("sensor", "second").group_by("sensor", maintain_order=True):
        values, step = series["x"].to_numpy(), series["second"][1] - series["second"][0]
        amplitude = abs(np.fft.rfft(values)) * 2 / len(values)
        amplitude[[0, -1]] /= 2
        found.append(pl.DataFrame({"frequency": np.fft.rfftfreq(len(values), step), "x": amplitude}).with_columns(sensor=pl.lit(name)))
    return pl.concat(found)


def heat(folder: Path) -> pl.DataFrame:
    """Two hundred steps of a plate whose rim stays."""
    cells = pl.read_parquet(folder / "plate.parquet").sort("y", "x")
    height, width = cells["y"].n_unique(), cells["x"].n_unique()
    now = cells["temperature"].to_numpy().reshape(height, width).copy()
    for _ in range(200):
        inner = now[1:-1, 1:-1]
        now[1:-1, 1:-1] = inner + 0.125 * (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * inner)
    return cells.select("x", "y").with_columns(temperature=pl.Series(now.ravel()))


def n_body(folder: Path) -> pl.DataFrame:
    """Twenty leapfrog steps, every pair of bodies, in blocks that fit into the cache."""
    bodies = pl.read_parquet(folder / "bodies.parquet")
    mass = bodies["mass"].to_numpy()
    places, speeds = (bodies.select(names).to_numpy() for names in (["x", "y", "z"], ["vx", "vy", "vz"]))

    def pull() -> np.ndarray:
        found = np.empty_like(places)
        for start in range(0, len(places), 100):
            apart = places[None] - places[start : start + 100, None]
            weights = mass / ((apart**2).sum(axis=2) + 0.01**2) ** 1.5
            found[start : start + 100] = (weights[:, :, None] * apart).sum(axis=1)
        return found

    force = pull()
    for _ in range(20):
        speeds = speeds + force * 0.0005
        places = places + speeds * 0.001
        force = pull()
        speeds = speeds + force * 0.0005
    return pl.from_numpy(np.hstack([places, speeds]))


if __name__ == "__main__":
    work, place = sys.argv[1:]
    globals()[work](Path(place)).write_parquet(Path(place) / f"{work}-theirs.parquet")
