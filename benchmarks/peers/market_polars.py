"""The market job as one writes it by hand: lazy Polars and native XGBoost, up to the walk forward; market_polars.py --data DIR --out DIR.

Features of prices until today, tomorrow's direction learned from all days before each of six stretches, beside the naive rule.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
import xgboost as xgb
from polars import col as c

SEED, FOLDS, ROUNDS = 20261122, 6, 60
FEATURES = (
    *("own", "own_by_volatility", "moved_on_volume", "busy", "own_before", "own_2_before", "busy_before", "momentum_5", "momentum_20"),
    *("volatility", "market", "market_20", "market_volatility"),
)


def features(prices: pl.LazyFrame) -> pl.LazyFrame:
    """A row a share and day, with what was known then and what came the day after."""
    valid = prices.filter(c("close") > 0, c("volume") > 0)
    once = valid.sort("volume", descending=True).unique(["share", "day"], keep="first", maintain_order=True).sort("share", "day")
    moves = once.with_columns(
        c("close").pct_change().over("share").alias("return"),
        usual_volume=c("volume").rolling_mean(20, min_samples=1).over("share"),
    )
    days = moves.group_by("day").agg(market=c("return").mean().round(12))
    own = moves.join(days, on="day", maintain_order="left").with_columns(
        own=c("return") - c("market"), busy=c("volume") / c("usual_volume")
    )

    def rolled(column: pl.Expr, rows: int) -> pl.Expr:
        return column.rolling_mean(rows, min_samples=1).over("share")

    looked_back = own.with_columns(
        own_before=c("own").shift().over("share"),
        own_2_before=c("own").shift(2).over("share"),
        busy_before=c("busy").shift().over("share"),
        momentum_5=rolled(c("own"), 5),
        momentum_20=rolled(c("own"), 20),
        volatility=c("return").rolling_std(20).over("share"),
        market_20=rolled(c("market"), 20),
        market_volatility=c("market").rolling_std(20, min_samples=2).over("share"),
        tomorrow=c("return").shift(-1).over("share"),
    )
    return looked_back.filter(c("volatility").is_not_null(), c("tomorrow").is_not_null()).with_columns(
        id=c("share") + " " + c("day").cast(pl.String),
        rises=(c("tomorrow") > 0).cast(pl.Int32),
        own_by_volatility=c("own") / c("volatility"),
        moved_on_volume=c("own") * c("busy"),
    )


def walked(rows: pl.DataFrame) -> pl.DataFrame:
    """Every stretch of days but the first, predicted by what was learned from all days before it; rows are in the order of days."""
    size = rows.height // (FOLDS + 1)
    first = rows.height - FOLDS * size
    counts = rows.group_by("day").agg(pl.len()).sort("day").with_columns(before=c("len").cum_sum() - c("len"))
    at = pl.when(c("before") < first).then(0).otherwise((c("before") - first) // size + 1)
    placed = rows.join(counts.select("day", fold=at), on="day", maintain_order="left")
    found = []
    for fold in range(1, FOLDS + 1):
        learned, asked = placed.filter(c("fold") < fold), placed.filter(c("fold") == fold)
        matrix = xgb.QuantileDMatrix(learned.select(FEATURES), learned["rises"], max_bin=256, nthread=pl.thread_pool_size())
        told = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 4, "eta": 0.05, "max_bin": 256, "seed": SEED}
        booster = xgb.train({**told, "nthread": pl.thread_pool_size()}, matrix, ROUNDS)
        prediction = booster.inplace_predict(asked.select(FEATURES).to_numpy().astype(np.float32))
        found.append(asked.with_columns(prediction=pl.Series(prediction)))
    return pl.concat(found)


def told(predicted: pl.DataFrame) -> pl.DataFrame:
    """How good each fold is, and how good the naive rule, that a share goes on as it went today."""
    up, went_up = c("prediction") > 0.5, c("return") > 0
    return (
        predicted.group_by("fold")
        .agg(
            first_day=c("day").min(),
            last_day=c("day").max(),
            forecasts=pl.len(),
            model_accuracy=(up == (c("rises") == 1)).mean(),
            naive_accuracy=(went_up == (c("rises") == 1)).mean(),
            model_return=pl.when(up).then(c("tomorrow")).otherwise(-c("tomorrow")).mean().round(12),
            naive_return=pl.when(went_up).then(c("tomorrow")).otherwise(-c("tomorrow")).mean().round(12),
        )
        .sort("fold")
    )


def main() -> None:
    """The whole job."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = features(pl.scan_parquet(given.data / "prices.parquet")).sort("day", "share").collect()
    rows.write_parquet(given.out / "features.parquet")
    told(walked(rows)).write_parquet(given.out / "walk.parquet")


if __name__ == "__main__":
    main()
