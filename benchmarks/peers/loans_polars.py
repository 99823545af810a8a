"""The loans job as a good programmer writes it by hand: lazy Polars and native XGBoost, no cluster, no record, no report.

python benchmarks/peers/loans_polars.py --loans 'DIR/loans/*.parquet' --performance 'DIR/performance/*.parquet' --out DIR

The chain is that of jobs/loans.yaml: clean, aggregate months 0 to 11 of every loan, label by months 12 to 23, join, derive, split by a
hash of the loan, fill and encode by the training rows, train with early stopping, predict every split. A loan's rows may lie in any of the
files. POLARS_MAX_THREADS sets the threads of both libraries.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import xgboost as xgb

Floats = npt.NDArray[np.float64]

SEED, ROUNDS, PATIENCE = 20261121, 200, 20
SPLITS = {"train": 0.70, "validation": 0.85, "test": 1.0}
FILLED, CODED = ("credit_score", "dti"), ("state", "purpose", "channel")
FEATURES = (
    *("credit_score", "dti", "ltv", "rate", "amount", "state", "purpose", "channel", "origination_year", "origination_month"),
    *("rows_first", "balance_mean", "balance_last", "days_late_max", "days_late_mean", "months_late", "rate_mean"),
    *("paid_share", "interest_monthly", "rate_change", "late_share", "balance_to_value"),
)


def mixed(key: str, seed: int) -> pl.Expr:
    """Splitmix64's mix of an integer key, as a fraction in [0, 1) of its upper 53 bits. Products wrap at 64 bits."""

    def word(value: int) -> pl.Expr:
        return pl.lit(value % 2**64, dtype=pl.UInt64)

    z = pl.col(key).cast(pl.UInt64) + word(0x9E3779B97F4A7C15 * (seed + 1))
    z = (z ^ (z // word(2**30))) * word(0xBF58476D1CE4E5B9)
    z = (z ^ (z // word(2**27))) * word(0x94D049BB133111EB)
    return ((z ^ (z // word(2**31))) // word(2**11)).cast(pl.Float64) * 2.0**-53


def cleaned_loans(loans: pl.LazyFrame) -> pl.LazyFrame:
    """Bad values to null, one spelling a purpose, the date's year and month."""
    purpose = pl.col("purpose").str.strip_chars().str.to_lowercase()
    date = pl.col("origination_date").str.to_date("%Y-%m-%d", strict=False)
    return loans.select(
        "loan_id",
        pl.col("credit_score").cast(pl.Float64),
        pl.when(pl.col("dti") >= 0).then("dti").alias("dti"),
        *("ltv", "rate", "amount", "state", "channel"),
        pl.when(purpose.is_in(["purchase", "purch"]))
        .then(pl.lit("purchase"))
        .when(purpose.is_in(["refinance", "refi"]))
        .then(pl.lit("refinance"))
        .otherwise(pl.lit("other"))
        .alias("purpose"),
        origination_year=date.dt.year(),
        origination_month=date.dt.month().cast(pl.Int32),
    )


def per_loan(performance: pl.LazyFrame) -> pl.LazyFrame:
    """One row a loan with valid rows in both years: what the first year shows, and the label of the second.

    Means of decimals are rounded, because the order of a parallel sum is open and its last bit would reach the model by `rate_change`.
    """
    first = pl.col("month") < 12

    def early(value: pl.Expr) -> pl.Expr:
        return pl.when(first).then(value)

    late = pl.col("days_late").clip(lower_bound=0)
    rows = performance.filter(pl.col("balance") >= 0).select(
        "loan_id",
        month=early(pl.col("month")),
        balance=early(pl.col("balance")),
        rate=early(pl.col("rate")),
        days_late=early(late),
        is_late=early((late >= 30).cast(pl.Int32)),
        days_late_next=pl.when(~first).then(late),
    )
    return (
        rows.group_by("loan_id")
        .agg(
            rows_first=pl.col("balance").count().cast(pl.Int32),
            balance_mean=pl.col("balance").mean().round(6),
            balance_last=pl.col("balance").max_by("month"),
            days_late_max=pl.col("days_late").max(),
            days_late_mean=pl.col("days_late").mean(),
            months_late=pl.col("is_late").sum().cast(pl.Int32),
            rate_mean=pl.col("rate").mean().round(6),
            rows_next=pl.col("days_late_next").count().cast(pl.Int32),
            label=(pl.col("days_late_next").max() >= 90).cast(pl.Int32),
        )
        .filter((pl.col("rows_first") > 0) & (pl.col("rows_next") > 0))
        .drop("rows_next")
    )


def assembled(loans: str, performance: str) -> pl.DataFrame:
    """Loans joined to their performance, with ratios and split, in order of loan_id."""
    fraction = mixed("loan_id", SEED)
    return (
        cleaned_loans(pl.scan_parquet(loans))
        .join(per_loan(pl.scan_parquet(performance)), on="loan_id")
        .with_columns(
            paid_share=1 - pl.col("balance_last") / pl.col("amount"),
            interest_monthly=pl.col("balance_last") * pl.col("rate_mean") / 1200,
            rate_change=(pl.col("rate_mean") - pl.col("rate")).round(6),
            late_share=pl.col("months_late") / pl.col("rows_first"),
            balance_to_value=pl.col("balance_last") * pl.col("ltv") / pl.col("amount"),
            split=pl.when(fraction < SPLITS["train"])
            .then(pl.lit("train"))
            .when(fraction < SPLITS["validation"])
            .then(pl.lit("validation"))
            .otherwise(pl.lit("test")),
        )
        .sort("loan_id")
        .collect(engine="streaming")
    )


def encoded(table: pl.DataFrame) -> pl.DataFrame:
    """Gaps filled by the training rows' means, text coded by the sorted training values (null where it was not among them)."""
    train = table.filter(pl.col("split") == "train")
    means = train.select(pl.col(FILLED).mean()).row(0, named=True)
    codes = {name: {value: code for code, value in enumerate(train[name].drop_nulls().unique().sort())} for name in CODED}
    return table.select(
        "loan_id",
        "split",
        "label",
        *(
            pl.col(name).fill_null(means[name])
            if name in FILLED
            else pl.col(name).replace_strict(codes[name], default=None, return_dtype=pl.Int32)
            if name in CODED
            else pl.col(name)
            for name in FEATURES
        ),
    )


def trained(parts: dict[str, pl.DataFrame]) -> xgb.Booster:
    """The booster, early-stopped on the validation rows."""
    train, validation = parts["train"], parts["validation"]
    d_train = xgb.QuantileDMatrix(train.select(FEATURES), train["label"], max_bin=256, nthread=pl.thread_pool_size())
    d_validation = xgb.QuantileDMatrix(
        validation.select(FEATURES), validation["label"], ref=d_train, max_bin=256, nthread=pl.thread_pool_size()
    )
    parameters = {
        "objective": "binary:logistic",
        "eval_metric": "logloss",
        "tree_method": "hist",
        "max_depth": 6,
        "eta": 0.1,
        "max_bin": 256,
        "nthread": pl.thread_pool_size(),
        "seed": SEED,
    }
    return xgb.train(parameters, d_train, ROUNDS, evals=[(d_validation, "validation")], early_stopping_rounds=PATIENCE, verbose_eval=False)


def metrics(label: Floats, prediction: Floats) -> dict[str, float]:
    """AUC (ties count half), log loss and accuracy."""
    ranks = pl.Series(prediction).rank("average").to_numpy()
    positive = label.sum()
    auc = (ranks[label == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(label) - positive))
    p = np.clip(prediction.astype(np.float64), 1e-15, 1 - 1e-15)
    return {
        "auc": float(auc),
        "log_loss": float(-np.mean(label * np.log(p) + (1 - label) * np.log1p(-p))),
        "accuracy": float(np.mean((prediction >= 0.5) == (label == 1))),
        "rows": len(label),
    }


def run(loans: str, performance: str, out: Path) -> None:
    """The whole job; prints the seconds of every step."""
    began = time.perf_counter()

    def passed(step: str) -> None:
        print(f"{time.perf_counter() - began:7.2f} s  {step}", flush=True)

    out.mkdir(parents=True, exist_ok=True)
    features = encoded(assembled(loans, performance))
    passed(f"features of {features.height} loans")
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(features.write_parquet, out / "features.parquet")
        parts = {name: features.filter(pl.col("split") == name) for name in SPLITS}
        booster = trained(parts)
        written.result()
    passed(f"trained {booster.num_boosted_rounds()} rounds, best {booster.best_iteration + 1}; features written")
    results, figures = [], {}
    for name, part in parts.items():
        prediction = booster.inplace_predict(part.select(FEATURES).to_numpy(), iteration_range=(0, booster.best_iteration + 1))
        figures[name] = metrics(part["label"].to_numpy(), prediction)
        results.append(part.select("loan_id", "split", "label").with_columns(prediction=pl.Series(prediction)))
    pl.concat(results).write_parquet(out / "predictions.parquet")
    booster.save_model(out / "model.ubj")
    (out / "metrics.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    passed("predictions, model and metrics; " + ", ".join(f"AUC {name} {value['auc']:.4f}" for name, value in figures.items()))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--loans", required=True, help="glob of the loans' Parquet files")
    parser.add_argument("--performance", required=True, help="glob of the performance Parquet files")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    run(given.loans, given.performance, given.out)


if __name__ == "__main__":
    main()
