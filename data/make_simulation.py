"""Makes the inputs of the simulation job: a copper plate with warm places, and the sun with its planets.

    python data/make_simulation.py --width 96 --height 64 --out DIR [--seed 20261123]

Masses and half axes of the planets are those of astronomy (rounded); where each stands on its orbit is drawn, and all orbits are circles in
one plane, as fast as the sun alone would have them: so each planet's period is known, but for what the others pull at it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

GRAVITY = 4 * np.pi**2  # au3 / (suns year2)
PLANETS = {
    "Mercury": (1.660e-7, 0.3871), "Venus": (2.448e-6, 0.7233), "Earth": (3.003e-6, 1.0), "Mars": (3.227e-7, 1.5237),
    "Jupiter": (9.546e-4, 5.2034), "Saturn": (2.858e-4, 9.5371), "Uranus": (4.366e-5, 19.1913), "Neptune": (5.151e-5, 30.0690),
}  # fmt: skip
"""Mass in suns, half axis in au."""
COLD, WARM = 20.0, ((0.3, 0.4, 0.13, 100.0), (0.7, 0.6, 0.18, 65.0))
"""Degrees; and discs: centre along x and y and radius as shares of the height, degrees."""


def make_plate(width: int, height: int) -> pl.DataFrame:
    """`x`, `y`, `temperature` of every cell. Raises ValueError for fewer than 8 cells on a side."""
    if min(width, height) < 8:
        raise ValueError(f"a plate of {width} x {height} cells: at least 8 x 8")
    y, x = np.indices((height, width))
    found = np.full((height, width), COLD)
    for across, up, radius, degrees in WARM:
        found[(x / width - across) ** 2 * (width / height) ** 2 + (y / height - up) ** 2 < radius**2] = degrees
    return pl.DataFrame({"x": x.ravel(), "y": y.ravel(), "temperature": found.ravel()})


def make_bodies(rng: np.random.Generator) -> pl.DataFrame:
    """`name`, `mass`, places in au and speeds in au a year; their momentum is 0."""
    mass, axis = (np.array([planet[at] for planet in PLANETS.values()]) for at in (0, 1))
    angle, speed = rng.uniform(0, 2 * np.pi, len(PLANETS)), np.sqrt(GRAVITY * (1 + mass) / axis)
    places = np.column_stack([axis * np.cos(angle), axis * np.sin(angle), 0 * axis])
    speeds = np.column_stack([-speed * np.sin(angle), speed * np.cos(angle), 0 * axis])
    mass, places, speeds = np.append(1.0, mass), np.vstack([np.zeros(3), places]), np.vstack([np.zeros(3), speeds])
    speeds -= mass @ speeds / mass.sum()
    columns = {name: values[:, at] for values, names in ((places, "xyz"), (speeds, ("vx", "vy", "vz"))) for at, name in enumerate(names)}
    return pl.DataFrame({"name": ["Sun", *PLANETS], "mass": mass, **columns})


def write_simulation(folder: Path, width: int, height: int, seed: int) -> None:
    """Write plate.parquet and bodies.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    make_plate(width, height).write_parquet(folder / "plate.parquet")
    make_bodies(np.random.default_rng(seed)).write_csv(folder / "bodies.csv", float_precision=12)


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--width", type=int, default=96, help="cells of the plate along x")
    parser.add_argument("--height", type=int, default=64, help="and along y")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the plate and the bodies to")
    parser.add_argument("--seed", type=int, default=20261123)
    given = parser.parse_args()
    write_simulation(given.out, given.width, given.height, given.seed)
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
