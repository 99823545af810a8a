"""Makes the tables of H2O.ai's benchmark of data frames: one to group (G1, of k = 100), and four to join (J1).

    python data/make_h2o.py --rows 10000000 --out DIR        # 0.7 GB; about 4 GB of memory

Columns and domains are the benchmark's; the chance is ours, so answers are compared with another program's on these tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

SEED, GROUPS = 20261122, 100

Numbers = NDArray[np.int64]


def texts(numbers: Numbers, width: int) -> pl.Series:
    """Names such as id007."""
    return pl.select(pl.lit("id") + pl.lit(pl.Series(numbers)).cast(pl.String).str.zfill(width)).to_series()


def grouped(rows: int, random: np.random.Generator) -> pl.DataFrame:
    """The table G1: keys of few and of many values, as text and as numbers, and three values."""
    few, many = GROUPS, max(1, rows // GROUPS)
    return pl.DataFrame(
        {
            "id1": texts(random.integers(1, few + 1, rows), 3),
            "id2": texts(random.integers(1, few + 1, rows), 3),
            "id3": texts(random.integers(1, many + 1, rows), 10),
            "id4": random.integers(1, few + 1, rows, dtype=np.int32),
            "id5": random.integers(1, few + 1, rows, dtype=np.int32),
            "id6": random.integers(1, many + 1, rows, dtype=np.int32),
            "v1": random.integers(1, 6, rows, dtype=np.int32),
            "v2": random.integers(1, 16, rows, dtype=np.int32),
            "v3": np.round(random.uniform(0, 100, rows), 6),
        }
    )


def joined(rows: int, random: np.random.Generator) -> dict[str, pl.DataFrame]:
    """The tables J1: `x`, and three that have a millionth, a thousandth and all as many rows; nine tenths of the keys of x are in each."""
    sizes = {"small": max(10, rows // 1_000_000), "medium": max(10, rows // 1_000), "big": rows}
    names = [("id1", "id4"), ("id2", "id5"), ("id3", "id6")]
    pools = [random.permutation(size + max(1, size // 10)).astype(np.int64) + 1 for size in sizes.values()]
    found = {}
    drawn = [pool[random.integers(0, size, rows)] for pool, size in zip(pools, sizes.values(), strict=True)]
    keys = {number: pl.Series(key.astype(np.int32)) for (number, _), key in zip(names, drawn, strict=True)}
    found["x"] = pl.DataFrame(
        {**keys, **{text: texts(key, 10) for (_, text), key in zip(names, drawn, strict=True)}, "v1": random.uniform(0, 100, rows).round(6)}
    )
    for at, (table, size) in enumerate(sizes.items()):
        own = pools[at][size // 10 : size // 10 + size] if at == 0 else pools[at][-size:]
        columns = {names[at][0]: own.astype(np.int32), names[at][1]: texts(own, 10), "v2": random.uniform(0, 100, size).round(6)}
        found[table] = pl.DataFrame(columns)
    return found


def write_tables(folder: Path, rows: int) -> None:
    """Write groups.parquet, x.parquet, small.parquet, medium.parquet and big.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    grouped(rows, np.random.default_rng(SEED)).write_parquet(folder / "groups.parquet", row_group_size=1 << 20)
    for name, table in joined(rows, np.random.default_rng(SEED + 1)).items():
        table.write_parquet(folder / f"{name}.parquet", row_group_size=1 << 20)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, required=True, help="rows of the table to group, and of the largest to join")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    given = parser.parse_args(arguments)
    write_tables(given.out, given.rows)


if __name__ == "__main__":
    main()
