"""The recommendation job as it is written by hand with Polars and implicit: weigh, hold out the last two films, ALS, ten for everybody.

python benchmarks/peers/recommendation_implicit.py --views FILE.parquet --films FILE.parquet --out DIR
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

TOP, HELD_OUT = 10, 2


def run(views: str, films: str, out: Path) -> None:
    """The whole job."""
    rows = pl.read_parquet(views).drop_nulls(["person", "plays"]).filter(pl.col("plays") > 0).with_columns(weight=pl.col("plays").log1p())
    each = rows.group_by("person", "film").agg(pl.col("weight").sum(), pl.col("day").max()).sort("person", "day", "film")
    last = pl.int_range(pl.len()).over("person") >= pl.len().over("person") - HELD_OUT
    each = each.with_columns(held=last & (pl.len().over("person") > HELD_OUT))
    people, items = each["person"].unique().sort(), each["film"].unique().sort()
    train = each.filter(~pl.col("held"))
    at = (people.search_sorted(train["person"]).to_numpy(), items.search_sorted(train["film"]).to_numpy())
    matrix = csr_matrix((train["weight"].to_numpy().astype(np.float32), at), shape=(len(people), len(items)))
    model = AlternatingLeastSquares(factors=12, regularization=4, alpha=5, iterations=15, random_state=0, use_gpu=False)
    model.fit(matrix, show_progress=False)
    found, scores = model.recommend(np.arange(len(people)), matrix, N=TOP, filter_already_liked_items=True)
    lists = pl.DataFrame(
        {
            "person": people[np.repeat(np.arange(len(people)), TOP)],
            "rank": np.tile(np.arange(1, TOP + 1), len(people)),
            "film": items[found.ravel()],
            "score": scores.ravel(),
        }
    )
    out.mkdir(parents=True, exist_ok=True)
    lists.join(pl.read_parquet(films), on="film", how="left").write_parquet(out / "recommendations.parquet")
    held = each.filter("held").join(lists, on=["person", "film"], how="left")
    figures = {"recall_at_10": float(held["rank"].is_not_null().to_numpy().mean())}
    (out / "metrics.json").write_text(json.dumps(figures) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--views", required=True)
    parser.add_argument("--films", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    run(given.views, given.films, given.out)


if __name__ == "__main__":
    main()
