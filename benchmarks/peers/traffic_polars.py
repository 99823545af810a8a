"""The traffic job as one writes it by hand: lazy Polars and native XGBoost, traffic_polars.py --data DIR --out DIR.

Readings become flows of fifteen minutes with what is usual and how far each is off, events, forecasts for the next hour by what was known
before it, how good they are, and a row a sensor: what jobs/traffic.yaml has, without cluster, record and report.
"""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

import polars as pl
import xgboost as xgb
from polars import col as c

SEED, ROUNDS, PATIENCE = 20261122, 100, 15
FEATURES = ("step", "weekday", "quarter", "flow", "before_1", "before_2", "before_3", "level", "level_hour", "usual_next", "going_on")
KEY = ("sensor", "weekday", "quarter")


def split(time: pl.Expr) -> pl.Expr:
    """Six weeks of training, one that says when it stops, and one that judges."""
    return (
        pl.when(time < datetime(2026, 4, 20))
        .then(pl.lit("train"))
        .when(time < datetime(2026, 4, 27))
        .then(pl.lit("validation"))
        .otherwise(pl.lit("test"))
    )


def finite(value: pl.Expr) -> pl.Expr:
    """Nothing where it is none."""
    return pl.when(value.is_finite()).then(value)


def weekday(time: pl.Expr) -> pl.Expr:
    """Holidays are as Sundays."""
    return pl.when(c("holiday").is_null()).then(time.dt.weekday()).otherwise(7).cast(pl.Int64)


def quarter(time: pl.Expr) -> pl.Expr:
    """Of the day."""
    return time.dt.hour().cast(pl.Int64) * 4 + time.dt.minute() // 15


def quarters(readings: pl.LazyFrame) -> pl.LazyFrame:
    """A row a sensor and quarter of an hour, in this order, also where nothing was read."""
    speed = (10 * c("speed")).round()
    read = readings.group_by("sensor", c("time").dt.truncate("15m")).agg(
        cars=c("count").sum(),
        readings=pl.len().cast(pl.Int64),
        tenths=(speed * c("count")).sum() / c("count").filter(speed.is_not_null()).sum(),
        slowest=c("speed").min(),
        fastest=c("speed").max(),
    )
    steps = (
        read.group_by("sensor")
        .agg(time=pl.datetime_ranges(c("time").min(), c("time").max(), "15m").first())
        .explode("time", empty_as_null=False)
    )
    return steps.join(read, on=["sensor", "time"], how="left").with_columns(c("readings").fill_null(0)).sort("sensor", "time")


def checked(rows: pl.LazyFrame, holidays: pl.LazyFrame) -> pl.LazyFrame:
    """Flows and speeds, without those of stuck sensors and of too few readings."""

    def beside(by: int) -> pl.Expr:
        return (c("slowest").shift(by).over("sensor") == c("slowest")) & (c("fastest").shift(by).over("sensor") == c("fastest"))

    still = (c("slowest") == c("fastest")) & (c("readings") > 1) & (beside(1).fill_null(False) | beside(-1).fill_null(False))
    return (
        rows.with_columns(stuck=still.fill_null(False), day=c("time").dt.date(), split=split(c("time")))
        .with_columns(
            flow=pl.when((c("readings") > 1) & ~c("stuck")).then(c("cars") * 3.0 / c("readings")),
            speed=finite(pl.when(~c("stuck")).then(c("tenths") / 10)).round(9),
        )
        .join(holidays, on="day", how="left", maintain_order="left")
        .with_columns(weekday=weekday(c("time")), hour=c("time").dt.hour().cast(pl.Int64), quarter=quarter(c("time")))
    )


def judged(flows: pl.LazyFrame) -> pl.LazyFrame:
    """How far each row is off what is usual, and what state its sensor is in."""
    train = c("split") == "train"
    usual = flows.filter(train).group_by(KEY).agg(usual=c("flow").mean().round(6), usual_speed=c("speed").median())
    compared = flows.join(usual, on=KEY, how="left", maintain_order="left").with_columns(
        off=((c("flow") + 1) / (c("usual") + 1)).log(), off_speed=c("speed") - c("usual_speed")
    )

    def middle(of: pl.Expr) -> pl.Expr:
        return pl.when(train).then(of).median().over("sensor", "hour")

    z = c("score") > 8
    return (
        compared.with_columns(middle=middle(c("off")), middle_speed=middle(c("off_speed")))
        .with_columns(deviation=middle((c("off") - c("middle")).abs()), deviation_speed=middle((c("off_speed") - c("middle_speed")).abs()))
        .with_columns(
            z=finite((c("off") - c("middle")) / (1.4826 * c("deviation"))).round(6),
            z_speed=finite((c("off_speed") - c("middle_speed")) / pl.max_horizontal(1.4826 * c("deviation_speed"), pl.lit(1.0))).round(6),
        )
        .with_columns(score=pl.max_horizontal(c("z").abs(), -c("z_speed")))
        .with_columns(
            anomaly=z,
            state=pl.when(c("readings") == 0)
            .then(pl.lit("no readings"))
            .when("stuck")
            .then(pl.lit("stuck"))
            .when(z)
            .then(pl.when(c("z") > 3).then(pl.lit("crowded")).when(c("z_speed") < -8).then(pl.lit("slow")).otherwise(pl.lit("few cars"))),
        )
    )


def events(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Quarters of one kind that follow one another, two at least."""
    kind = pl.when("anomaly").then(pl.lit("unusual")).otherwise("state")
    before = c("kind").shift().over("sensor")
    return (
        rows.with_columns(kind=kind)
        .with_columns(begins=pl.when(before.is_null() | (before != c("kind"))).then(1).otherwise(0))
        .filter(c("kind").is_not_null())
        .with_columns(event=c("begins").cum_sum().over("sensor"))
        .group_by("sensor", "event")
        .agg(
            state=c("state").mode().min(),
            began=c("time").min(),
            ended=c("time").max() + pl.duration(minutes=15),
            quarters=pl.len().cast(pl.Int64),
            cars_more=(c("flow") - c("usual")).sum().round(3),
            speed=c("speed").mean().round(9).round(3),
            score=c("score").max(),
        )
        .filter(c("quarters") > 1)
        .drop("event")
        .sort("sensor", "began")
    )


def features(rows: pl.LazyFrame, holidays: pl.LazyFrame) -> pl.LazyFrame:
    """Four rows for each quarter of an hour, one for each of the next four, with what was known; in the order of `row`."""
    slots = rows.with_columns(
        usual_before=c("flow").shift().rolling_mean(4, min_samples=1).over(KEY, order_by="time"),
        usual_next=c("flow").rolling_mean(4, min_samples=1).over(KEY, order_by="time"),
    )
    past = slots.with_columns(level=(c("flow") + 1) / (c("usual_before") + 1)).with_columns(
        *(c("flow").shift(by).over("sensor").alias(f"before_{by}") for by in (1, 2, 3)),
        level_hour=c("level").rolling_mean(4, min_samples=1).over("sensor"),
        week_before=c("flow").shift(672).over("sensor"),
    )
    known = past.select("sensor", c("time").alias("made"), "flow", "before_1", "before_2", "before_3", "level", "level_hour")
    ahead = pl.concat(
        known.with_columns(step=pl.lit(step, pl.Int64), time=c("made") + pl.duration(minutes=15 * step)) for step in (1, 2, 3, 4)
    )
    keyed = (
        ahead.with_columns(day=c("time").dt.date())
        .join(holidays, on="day", how="left")
        .with_columns(weekday=weekday(c("time")), quarter=quarter(c("time")))
        .drop("day", "holiday")
        .sort("time")
    )
    earlier = slots.select(*KEY, "time", "usual_next").sort("time")
    truth = past.select("sensor", "time", c("flow").alias("observed"), "usual", "week_before")
    return (
        keyed.join_asof(earlier, on="time", by=KEY, allow_exact_matches=False, check_sortedness=False)
        .join(truth, on=["sensor", "time"], how="left")
        .with_columns(
            row=(c("sensor").cast(pl.Int64) * 100_000_000 + c("time").dt.epoch("s") // 900) * 10 + c("step"),
            going_on=c("usual_next") * c("level_hour"),
            split=split(c("time")),
        )
        .sort("row")
    )


def forecasts(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with a forecast each."""
    learned = {name: rows.filter(c("split") == name, c("observed").is_not_null()) for name in ("train", "validation")}
    threads = pl.thread_pool_size()
    train = xgb.QuantileDMatrix(learned["train"].select(FEATURES), learned["train"]["observed"], nthread=threads)
    validation = xgb.QuantileDMatrix(learned["validation"].select(FEATURES), learned["validation"]["observed"], ref=train, nthread=threads)
    told = {"objective": "reg:squarederror", "tree_method": "hist", "max_depth": 6, "eta": 0.2, "nthread": threads, "seed": SEED}
    evals = [(validation, "validation")]
    booster = xgb.train(told, train, ROUNDS, evals=evals, early_stopping_rounds=PATIENCE, verbose_eval=False)
    found = booster.inplace_predict(rows.select(FEATURES).to_numpy(), iteration_range=(0, booster.best_iteration + 1))
    return rows.with_columns(forecast=pl.Series(found).cast(pl.Float64))


def measures(told: pl.LazyFrame) -> pl.LazyFrame:
    """How far forecasts are off, beside the naive one and the usual."""
    off = {"": c("forecast"), "naive_": c("week_before"), "usual_": c("usual")}
    maes = {f"{name}mae": (c("observed") - value).abs().mean().round(9) for name, value in off.items()}
    rmses = {f"{name}rmse": ((c("observed") - value) ** 2).mean().round(9).sqrt() for name, value in off.items()}
    found = told.group_by("split", "step").agg(rows=pl.len().cast(pl.Int64), **maes, **rmses)
    return found.with_columns(gain=1 - c("rmse") / c("naive_rmse")).sort("split", "step")


def sensors(rows: pl.LazyFrame, told: pl.LazyFrame) -> pl.LazyFrame:
    """A row each."""
    both = c("speed").is_not_null() & c("flow").is_not_null()
    hours = rows.group_by("sensor", "hour").agg(cars=c("flow").mean()).sort("sensor", "hour")
    profiles = hours.group_by("sensor").agg(
        busiest_hour=c("hour").sort_by("cars", descending=True, nulls_last=True).first(), profile="cars"
    )
    totals = rows.group_by("sensor").agg(
        cars_a_day=(c("flow") * 96).mean().round(6),
        speed=((c("speed") * c("flow")).sum() / c("flow").filter(both).sum()).round(9),
        quarters=pl.len().cast(pl.Int64),
        silent=(c("readings") == 0).sum().cast(pl.Int64),
        stuck=c("stuck").sum().cast(pl.Int64),
        unusual=c("anomaly").sum().cast(pl.Int64),
    )
    test = c("split") == "test"
    missed = told.group_by("sensor").agg(
        mae=(c("observed") - c("forecast")).abs().filter(test).mean().round(9),
        naive_mae=(c("observed") - c("week_before")).abs().filter(test).mean().round(9),
    )
    return totals.join(profiles, on="sensor").join(missed, on="sensor", how="left").sort("sensor")


def main() -> None:
    """The whole job."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    holidays = pl.scan_csv(given.data / "holidays.csv", try_parse_dates=True).select("day", "holiday")
    readings = pl.scan_parquet(given.data / "readings" / "*.parquet")
    rows = judged(checked(quarters(readings), holidays)).collect()
    told = forecasts(features(rows.lazy(), holidays).collect())
    measurable = told.lazy().filter(c("observed").is_not_null(), c("week_before").is_not_null(), c("usual").is_not_null())
    hour_ahead = told.lazy().filter(c("step") == 4).select("sensor", "time", "forecast")
    flows = rows.lazy().join(hour_ahead, on=["sensor", "time"], how="left")
    tables = {
        "flows": flows.select("sensor", "time", "flow", "speed", "usual", "forecast", "score", "anomaly", "state", "split"),
        "events": events(rows.lazy()),
        "sensors": sensors(rows.lazy(), measurable),
        "forecasts": told.lazy()
        .filter(c("split") == "test")
        .select("sensor", "made", "step", "time", "observed", "forecast", "week_before", "usual"),
        "measures": measures(measurable),
        "predictions": told.lazy().select("row", c("forecast").alias("prediction")),
    }
    for name, table in zip(tables, pl.collect_all(tables.values()), strict=True):
        table.write_parquet(given.out / f"{name}.parquet")


if __name__ == "__main__":
    main()
