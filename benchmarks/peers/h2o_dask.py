"""H2O.ai's questions and joins as one writes them in Dask DataFrame: python benchmarks/peers/h2o_dask.py groups|join --data DIR --out DIR.

On a LocalCluster of threads of this process, the faster one for pandas 3 on few cores; --workers N for processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
from distributed import Client, LocalCluster

SIX = ["id1", "id2", "id3", "id4", "id5", "id6"]


def groups(data: Path) -> Iterator[tuple[str, Any]]:
    """The ten questions; groups that are many come out in several parts."""
    rows, many = dd.read_parquet(data / "groups.parquet", split_row_groups=True), {"split_out": 4}
    yield "g01", rows.groupby("id1").agg({"v1": "sum"}).reset_index()
    yield "g02", rows.groupby(["id1", "id2"]).agg({"v1": "sum"}).reset_index()
    yield "g03", rows.groupby("id3").agg({"v1": "sum", "v3": "mean"}, **many).reset_index()
    yield "g04", rows.groupby("id4").agg({"v1": "mean", "v2": "mean", "v3": "mean"}).reset_index()
    yield "g05", rows.groupby("id6").agg({"v1": "sum", "v2": "sum", "v3": "sum"}, **many).reset_index()
    spread = rows.groupby(["id4", "id5"]).agg({"v3": ["median", "std"]}, shuffle_method="tasks", **many).reset_index()
    spread.columns = ["id4", "id5", "median_v3", "sd_v3"]
    yield "g06", spread
    spans = rows.groupby("id3").agg({"v1": "max", "v2": "min"}, **many).reset_index()
    yield "g07", spans.assign(range=spans["v1"] - spans["v2"])[["id3", "range"]]
    meta = {"id6": "int32", "v3": "float64"}
    largest = rows[["id6", "v3"]].shuffle("id6").map_partitions(_largest, meta=meta)
    yield "g08", largest
    some = rows.assign(xx=rows["v1"] ** 2, yy=rows["v2"] ** 2, xy=rows["v1"] * rows["v2"], n=1)
    sums = some.groupby(["id2", "id4"]).agg(dict.fromkeys(("n", "v1", "v2", "xx", "yy", "xy"), "sum")).reset_index()
    both = sums["n"] * sums["xy"] - sums["v1"] * sums["v2"]
    apart = (sums["n"] * sums["xx"] - sums["v1"] ** 2) * (sums["n"] * sums["yy"] - sums["v2"] ** 2)
    yield "g09", sums.assign(r2=both**2 / apart)[["id2", "id4", "r2"]]
    counted = rows.assign(rows=1).groupby(SIX).agg({"v3": "sum", "rows": "sum"}, split_out=16).reset_index()
    yield "g10", counted


def _largest(part: Any) -> Any:
    return part.sort_values("v3", ascending=False).groupby("id6", sort=False).head(2)


def join(data: Path) -> Iterator[tuple[str, Any]]:
    """The five joins, each as its rows and sums; small tables are in one part, and so go to all others."""
    x, big = (dd.read_parquet(data / f"{name}.parquet", split_row_groups=True) for name in ("x", "big"))
    small, medium = (dd.read_parquet(data / f"{name}.parquet").repartition(npartitions=1) for name in ("small", "medium"))
    for name, found in {
        "j01": x.merge(small, on="id1"),
        "j02": x.merge(medium, on="id2"),
        "j03": x.merge(medium, on="id2", how="left"),
        "j04": x.merge(medium, on="id5"),
        "j05": x.merge(big, on="id3"),
    }.items():
        sums = found.assign(rows=1)[["rows", "v1", "v2"]].sum().compute().to_frame().T.astype({"rows": "int64"})
        yield name, dd.from_pandas(sums, npartitions=1)


def main() -> None:
    """Answer one work's questions, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=["groups", "join"])
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--workers", type=int, default=0, help="processes; 0 for threads of this one")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    own: dict[str, Any] = {"n_workers": given.workers, "threads_per_worker": 1} if given.workers else {"processes": False}
    with dask.config.set({"dataframe.shuffle.method": "tasks"}), LocalCluster(**own, dashboard_address=None) as cluster, Client(cluster):
        for name, found in {"groups": groups, "join": join}[given.work](given.data):
            found.to_parquet(given.out / f"{name}.parquet", write_index=False)


if __name__ == "__main__":
    main()
