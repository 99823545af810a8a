"""H2O.ai's questions and joins as one writes them in Polars: h2o_polars.py groups|join|filter --data DIR --out DIR."""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

V1, V2, V3 = pl.col("v1"), pl.col("v2"), pl.col("v3")


def groups(data: Path) -> dict[str, pl.LazyFrame]:
    """The ten questions."""
    rows = pl.scan_parquet(data / "groups.parquet")
    six = ["id1", "id2", "id3", "id4", "id5", "id6"]
    return {
        "g01": rows.group_by("id1").agg(V1.sum()),
        "g02": rows.group_by("id1", "id2").agg(V1.sum()),
        "g03": rows.group_by("id3").agg(V1.sum(), V3.mean()),
        "g04": rows.group_by("id4").agg(V1.mean(), V2.mean(), V3.mean()),
        "g05": rows.group_by("id6").agg(V1.sum(), V2.sum(), V3.sum()),
        "g06": rows.group_by("id4", "id5").agg(median_v3=V3.median(), sd_v3=V3.std()),
        "g07": rows.group_by("id3").agg(range=V1.max() - V2.min()),
        "g08": rows.group_by("id6").agg(V3.top_k(2)).explode("v3", empty_as_null=True),
        "g09": rows.group_by("id2", "id4").agg(r2=pl.corr("v1", "v2") ** 2),
        "g10": rows.group_by(six).agg(V3.sum(), rows=pl.len()),
    }


def join(data: Path) -> dict[str, pl.LazyFrame]:
    """The five joins, each as its rows and sums."""
    x, small, medium, big = (pl.scan_parquet(data / f"{name}.parquet") for name in ("x", "small", "medium", "big"))
    told = [pl.len().alias("rows"), V1.sum(), V2.sum()]
    return {
        "j01": x.join(small, on="id1").select(told),
        "j02": x.join(medium, on="id2").select(told),
        "j03": x.join(medium, on="id2", how="left").select(told),
        "j04": x.join(medium, on="id5").select(told),
        "j05": x.join(big, on="id3").select(told),
    }


def one_filter(data: Path) -> dict[str, pl.LazyFrame]:
    """The rows above a bound."""
    return {"kept": pl.scan_csv(data / "rows.csv").filter(pl.col("x") > 100)}


def main() -> None:
    """Answer one work's questions, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=["groups", "join", "filter"])
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, query in {"groups": groups, "join": join, "filter": one_filter}[given.work](given.data).items():
        query.collect(engine="streaming").write_parquet(given.out / f"{name}.parquet")


if __name__ == "__main__":
    main()
