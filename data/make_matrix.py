"""Makes the inputs of the matrix job: what sensors along a string measure, and the equations of a string under a load.

    python data/make_matrix.py --samples 2048 --sensors 12 --nodes 60 --out DIR [--seed 20261123]

The string swings in its first three shapes, sin(k pi x / L), each at a frequency of its own; data/README.md has the numbers. The equations
are those of finite differences, whose solution under an even load is the parabola q x (L - x) / (2 T) to the last digit.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

LENGTH_M, TENSION_N, EVEN_N_M, POINT_N = 12.0, 400.0, 5.0, 30.0
RATE_HZ = 64.0
SWINGS = ((1, 3.0, 1.5), (2, 1.5, 6.0), (3, 0.6, 13.5))
"""Shape, amplitude in mm, frequency in Hz."""
NOISE_MM = 0.05


def make_recordings(samples: int, sensors: int, rng: np.random.Generator) -> pl.DataFrame:
    """`second` and a column a sensor, in mm. Raises ValueError for fewer samples than a swing takes, or fewer sensors than shapes."""
    if samples < 256 or sensors < 4:
        raise ValueError(f"samples={samples}, sensors={sensors}: at least 256 samples and 4 sensors tell three shapes apart")
    second, place = np.arange(samples) / RATE_HZ, np.arange(1, sensors + 1) / (sensors + 1)
    moved = rng.normal(0, NOISE_MM, (samples, sensors))
    for shape, amplitude, frequency in SWINGS:
        moved += amplitude * np.outer(np.sin(2 * np.pi * frequency * second + shape), np.sin(np.pi * shape * place))
    return pl.DataFrame({"second": second, **{f"s{at + 1:02}": np.round(moved[:, at], 4) for at in range(sensors)}})


def make_equations(nodes: int) -> pl.DataFrame:
    """An equation a node: coefficients u001 ..., and the loads `even` and `point`, in N. Raises ValueError for fewer than three nodes."""
    if nodes < 3:
        raise ValueError(f"nodes={nodes}: at least three")
    step = LENGTH_M / (nodes + 1)
    stiffness = TENSION_N / step * (2 * np.eye(nodes) - np.eye(nodes, k=1) - np.eye(nodes, k=-1))
    loads = {"even": np.full(nodes, EVEN_N_M * step), "point": np.where(np.arange(nodes) == nodes // 3, POINT_N, 0.0)}
    columns = {f"u{at + 1:03}": stiffness[:, at] for at in range(nodes)}
    return pl.DataFrame({"node": np.arange(1, nodes + 1), **columns, **loads})


def write_matrix(folder: Path, samples: int, sensors: int, nodes: int, seed: int) -> None:
    """Write recordings.parquet and equations.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    make_recordings(samples, sensors, np.random.default_rng(seed)).write_parquet(folder / "recordings.parquet", row_group_size=512)
    make_equations(nodes).write_csv(folder / "equations.csv")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=2048, help=f"samples of every sensor, {RATE_HZ:g} a second")
    parser.add_argument("--sensors", type=int, default=12)
    parser.add_argument("--nodes", type=int, default=60, help="nodes of the string, each an unknown and an equation")
    parser.add_argument("--out", type=Path, required=True, help="folder to write recordings and equations to")
    parser.add_argument("--seed", type=int, default=20261123)
    given = parser.parse_args()
    write_matrix(given.out, given.samples, given.sensors, given.nodes, given.seed)
    for path in sorted(given.out.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
