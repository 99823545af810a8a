"""H2O.ai's questions and joins as one writes them in pandas: h2o_pandas.py groups|join|filter --data DIR --out DIR."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

SIX = ["id1", "id2", "id3", "id4", "id5", "id6"]


def groups(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The ten questions."""
    rows = pd.read_parquet(data / "groups.parquet")

    def by(*keys: str) -> pd.api.typing.DataFrameGroupBy:
        return rows.groupby(list(keys), as_index=False, sort=False, observed=True)

    yield "g01", by("id1").agg(v1=("v1", "sum"))
    yield "g02", by("id1", "id2").agg(v1=("v1", "sum"))
    yield "g03", by("id3").agg(v1=("v1", "sum"), v3=("v3", "mean"))
    yield "g04", by("id4").agg(v1=("v1", "mean"), v2=("v2", "mean"), v3=("v3", "mean"))
    yield "g05", by("id6").agg(v1=("v1", "sum"), v2=("v2", "sum"), v3=("v3", "sum"))
    yield "g06", by("id4", "id5").agg(median_v3=("v3", "median"), sd_v3=("v3", "std"))
    spans = by("id3").agg(most=("v1", "max"), least=("v2", "min"))
    yield "g07", spans.assign(range=spans["most"] - spans["least"])[["id3", "range"]]
    yield "g08", rows[["id6", "v3"]].sort_values("v3", ascending=False).groupby("id6", sort=False).head(2)
    some = rows.assign(xx=rows["v1"] ** 2, yy=rows["v2"] ** 2, xy=rows["v1"] * rows["v2"])
    sums = some.groupby(["id2", "id4"], as_index=False, sort=False).agg(
        n=("v1", "size"), x=("v1", "sum"), y=("v2", "sum"), xx=("xx", "sum"), yy=("yy", "sum"), xy=("xy", "sum")
    )
    both = sums["n"] * sums["xy"] - sums["x"] * sums["y"]
    apart = (sums["n"] * sums["xx"] - sums["x"] ** 2) * (sums["n"] * sums["yy"] - sums["y"] ** 2)
    yield "g09", sums.assign(r2=both**2 / apart)[["id2", "id4", "r2"]]
    yield "g10", by(*SIX).agg(v3=("v3", "sum"), rows=("v3", "size"))


def join(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The five joins, each as its rows and sums."""
    x, small, medium, big = (pd.read_parquet(data / f"{name}.parquet") for name in ("x", "small", "medium", "big"))

    def told(found: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"rows": [len(found)], "v1": [found["v1"].sum()], "v2": [found["v2"].sum()]})

    yield "j01", told(x.merge(small, on="id1"))
    yield "j02", told(x.merge(medium, on="id2"))
    yield "j03", told(x.merge(medium, on="id2", how="left"))
    yield "j04", told(x.merge(medium, on="id5"))
    yield "j05", told(x.merge(big, on="id3"))


def one_filter(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows above a bound."""
    rows = pd.read_csv(data / "rows.csv")
    yield "kept", rows[rows["x"] > 100]


def main() -> None:
    """Answer one work's questions, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=["groups", "join", "filter"])
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, found in {"groups": groups, "join": join, "filter": one_filter}[given.work](given.data):
        found.to_parquet(given.out / f"{name}.parquet", index=False)


if __name__ == "__main__":
    main()
