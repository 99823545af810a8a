"""jobs/loans.yaml: against the same chain written by hand, against the rules in plain Python, for any parts, and with no leak."""

from __future__ import annotations

import datetime
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score

from pipeline import api
from pipeline.run import main
from tests.report.pages import Page
from tests.small import script

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "loans"
FIRST_YEAR = 12
GAPS, CATEGORIES = ("credit_score", "dti"), ("state", "purpose", "channel")
REFINANCE, PURCHASE = ("refinance", "refi"), ("purchase", "purch")


peer = script("benchmarks/peers/loans_polars.py")
make_loans = script("data/make_loans.py")


def run(results: Path, data: Path = SAMPLE, **overrides: Any) -> api.Run:
    """The job on the loans and performance files under a folder."""
    paths = {f"inputs__{name}__path": str(data / name) for name in ("loans", "performance")}
    job = api.load(ROOT / "jobs" / "loans.yaml", results=str(results), **paths, cluster__dashboard=False, **overrides)
    return job.run()


def output(found: api.Run, name: str) -> pl.DataFrame:
    """An output in the order of the loans."""
    return found.table(name).to_polars().sort("loan_id")


def model(found: api.Run) -> bytes:
    """The saved model."""
    return (Path(found.path) / "models" / "lateness.ubj").read_bytes()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped."""
    return run(tmp_path_factory.mktemp("loans"))


@pytest.fixture(scope="module")
def by_hand() -> pl.DataFrame:
    """The features as the hand-written program makes them."""
    table: pl.DataFrame = peer.encoded(peer.assembled(str(SAMPLE / "loans" / "*.parquet"), str(SAMPLE / "performance" / "*.parquet")))
    return table


def test_score_job__gives_known_loans_what_training_gave_them_and_predicts_the_others(shipped: api.Run, tmp_path: Path) -> None:
    paths = {f"inputs__{name}__path": str(SAMPLE / name) for name in ("loans", "performance")}
    described = str(Path(shipped.path) / "models" / "lateness.json")
    job = api.load(ROOT / "jobs" / "score.yaml", results=str(tmp_path), stages__scores__model=described, **paths)
    scored = job.run().table("scores").to_polars()
    both = output(shipped, "predictions").join(scored, on="loan_id", suffix="_scored", validate="1:1")
    assert both["prediction"].equals(both["prediction_scored"])
    assert both.height == output(shipped, "predictions").height < scored.height, "loans whose second year is not known are scored too"


@pytest.mark.parametrize(("use", "needs"), [("linear", "numpy"), ("network", "jax")])
def test_loans_job__trains_another_model_by_one_word_and_score_gives_what_it_gave(use: str, needs: str, tmp_path: Path) -> None:
    pytest.importorskip(needs)
    paths = [f"inputs.{name}.path={SAMPLE / name}" for name in ("loans", "performance")]
    shorter = ["stages.lateness.rounds=20"] if use == "network" else []

    def ran(job: str, *words: str) -> api.Run:
        given = [part for word in (f"results={tmp_path / job}", *paths, *words) for part in ("--set", word)]
        assert main([str(ROOT / "jobs" / f"{job}.yaml"), *given]) == 0
        return api.open_run(tmp_path / job)

    trained = ran("loans", f"stages.lateness.use={use}", *shorter)
    scored = ran("score", f"stages.scores.model={tmp_path / 'loans' / 'current' / 'models' / 'lateness.json'}")
    both = output(trained, "predictions").join(scored.table("scores").to_polars(), on="loan_id", suffix="_scored", validate="1:1")
    assert both["prediction"].equals(both["prediction_scored"])
    assert trained.metrics["lateness"]["test"]["auc"] > 0.75
    assert set(trained.table("importance").to_polars()["feature"]) == set(peer.FEATURES)
    assert trained.record["stages"]["lateness"]["use"] == use


def test_loans_job__of_linear_is_the_same_for_any_parts(tmp_path: Path) -> None:
    one = run(tmp_path / "one", stages__lateness__use="linear")
    seven = run(tmp_path / "seven", stages__lateness__use="linear", inputs__loans__parts=2, inputs__performance__parts=7)
    assert_frame_equal(output(seven, "predictions"), output(one, "predictions"), rel_tol=1e-8, abs_tol=1e-10)


def test_loans_job__publishes_features_predictions_importance_model_and_metrics(shipped: api.Run) -> None:
    assert shipped.outputs == ["drift", "expected_loss", "features", "importance", "predictions", "stability"]
    features, predictions = output(shipped, "features"), output(shipped, "predictions")
    assert set(features.columns) == {"loan_id", "split", "label", *peer.FEATURES}
    assert predictions.columns == ["loan_id", "split", "label", "prediction"]
    assert predictions.drop("prediction").equals(features.select("loan_id", "split", "label"))
    importance = shipped.table("importance").to_polars()
    assert set(importance["feature"]) == set(peer.FEATURES)
    assert Path(shipped.report).stat().st_size > 10_000
    shares = dict(features["split"].value_counts(normalize=True).iter_rows())
    assert shares == pytest.approx({"train": 0.7, "validation": 0.15, "test": 0.15}, abs=0.02)


def test_loans_job__features_equal_those_made_by_hand(shipped: api.Run, by_hand: pl.DataFrame) -> None:
    features = output(shipped, "features").select(by_hand.columns)
    assert_frame_equal(features, by_hand, check_dtypes=False, rel_tol=1e-9, abs_tol=1e-9)
    whole = [name for name, dtype in features.schema.items() if dtype.is_integer() or dtype == pl.String]
    assert len(whole) == 11
    assert_frame_equal(features.select(whole), by_hand.select(whole), check_dtypes=False)


def test_loans_job__predictions_and_metrics_equal_those_made_by_hand(
    shipped: api.Run, by_hand: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pl, "thread_pool_size", lambda: 1)  # the model does not depend on it, and small trees are slow on busy cores
    parts = {name: by_hand.filter(pl.col("split") == name) for name in peer.SPLITS}
    booster, found = peer.trained(parts), output(shipped, "predictions")
    for name, part in parts.items():
        expected = booster.inplace_predict(part.select(peer.FEATURES).to_numpy(), iteration_range=(0, booster.best_iteration + 1))
        prediction = found.filter(pl.col("split") == name)["prediction"].to_numpy()
        # The same features in another order: a tie between two splits may fall the other way.
        assert np.abs(prediction - expected).mean() < 1e-3
        metrics = peer.metrics(part["label"].to_numpy(), prediction)
        assert shipped.metrics["lateness"][name] == pytest.approx({key: metrics[key] for key in ("auc", "log_loss", "accuracy")}, rel=1e-6)
    assert shipped.metrics["lateness"]["test"]["auc"] > 0.7


def test_loans_job__no_feature_sees_the_months_of_the_label(shipped: api.Run, tmp_path: Path) -> None:
    later = pl.col("month") >= FIRST_YEAR
    late = pl.when(pl.col("loan_id") % 3 == 0).then(120).otherwise(0).cast(pl.Int32)
    other = {"balance": 7 * pl.col("balance") + pl.when(pl.col("balance") >= 0).then(5), "days_late": late, "rate": pl.col("rate") * 3 + 1}
    (tmp_path / "performance").mkdir()
    for path in sorted((SAMPLE / "performance").glob("*.parquet")):
        rows = pl.read_parquet(path)
        changed = rows.with_columns(pl.when(later).then(value).otherwise(name).alias(name) for name, value in other.items())
        assert changed.filter(later).join(rows, on=rows.columns, how="semi").height < 0.01 * rows.height
        changed.write_parquet(tmp_path / "performance" / path.name)
    (tmp_path / "loans").symlink_to(SAMPLE / "loans")
    found, expected = output(run(tmp_path / "results", tmp_path), "features"), output(shipped, "features")
    assert_frame_equal(found.drop("label"), expected.drop("label"), check_exact=True)
    assert (found["label"] != expected["label"]).sum() > 1000


def late_days(row: dict[str, Any]) -> int:
    """Days late by the stated rule."""
    return max(int(row["days_late"]), 0)


def year_and_month(text: str | None) -> tuple[int | None, int | None]:
    """Of a date as text; None where it is none."""
    try:
        day = datetime.date.fromisoformat(text or "")
    except ValueError:
        return None, None
    return day.year, day.month


def by_the_rules(loans: pl.DataFrame, performance: pl.DataFrame) -> dict[int, dict[str, Any]]:
    """Label and raw features of every loan that counts, in plain Python, gaps and texts as they are."""
    months: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in performance.iter_rows(named=True):
        if row["balance"] is not None and row["balance"] >= 0:
            months[row["loan_id"]].append(row)
    found = {}
    for loan in loans.iter_rows(named=True):
        first = sorted((row for row in months[loan["loan_id"]] if row["month"] < FIRST_YEAR), key=lambda row: int(row["month"]))
        second = [row for row in months[loan["loan_id"]] if row["month"] >= FIRST_YEAR]
        if not first or not second:
            continue
        n, last, rate = len(first), first[-1]["balance"], round(sum(row["rate"] for row in first) / len(first), 6)
        purpose = (loan["purpose"] or "").strip().lower()
        year, month = year_and_month(loan.pop("origination_date"))
        found[loan["loan_id"]] = {
            **loan,
            "dti": loan["dti"] if loan["dti"] is not None and loan["dti"] >= 0 else None,
            "purpose": "purchase" if purpose in PURCHASE else "refinance" if purpose in REFINANCE else "other",
            "origination_year": year,
            "origination_month": month,
            "rows_first": n,
            "balance_mean": sum(row["balance"] for row in first) / n,
            "balance_last": last,
            "days_late_max": max(map(late_days, first)),
            "days_late_mean": sum(map(late_days, first)) / n,
            "months_late": sum(late_days(row) >= 30 for row in first),
            "rate_mean": rate,
            "paid_share": 1 - last / loan["amount"],
            "interest_monthly": last * rate / 1200,
            "rate_change": rate - loan["rate"],
            "late_share": sum(late_days(row) >= 30 for row in first) / n,
            "balance_to_value": last * loan["ltv"] / loan["amount"],
            "label": int(max(map(late_days, second)) >= 90),
        }
    return found


def test_loans_job__treats_bad_values_by_the_stated_rules_on_other_data(tmp_path: Path) -> None:
    make_loans.write_loans(tmp_path, 600, seed=5, files=3)
    loans, performance = (pl.read_parquet(tmp_path / name / "*.parquet") for name in ("loans", "performance"))
    bad = (pl.col("balance") < 0).any() & pl.col("balance").is_null().any() & (pl.col("days_late") < 0).any()
    assert performance.select(bad).item()
    assert loans["dti"].min() == -1
    assert all(loans[name].has_nulls() for name in ("origination_date", *GAPS, *CATEGORIES))
    expected = by_the_rules(loans, performance)
    assert len(expected) < loans.height
    found = output(run(tmp_path / "results", tmp_path), "features")
    assert found["loan_id"].to_list() == sorted(expected)
    train = [expected[loan] for loan in found.filter(pl.col("split") == "train")["loan_id"]]
    for name in found.columns:
        if name == "split":
            continue
        values: list[Any] = [expected[loan][name] for loan in found["loan_id"]]
        if name in GAPS:
            known = [row[name] for row in train if row[name] is not None]
            values = [sum(known) / len(known) if value is None else value for value in values]
        if name in CATEGORIES:
            codes = {text: code for code, text in enumerate(sorted({row[name] for row in train} - {None}))}
            values = [codes.get(value) for value in values]
        assert found[name].is_null().to_list() == [value is None for value in values], name
        numbers = [value for value in values if value is not None]
        assert found[name].drop_nulls().to_list() == pytest.approx(numbers, rel=1e-9, abs=1.1e-6), name


def scored(found: api.Run) -> pl.DataFrame:
    """Features and predictions together, in the order of the loans."""
    predictions = output(found, "predictions").select("loan_id", "prediction").cast({"prediction": pl.Float64})
    return output(found, "features").join(predictions, on="loan_id", validate="1:1").sort("loan_id")


def stability_index(before: Any, now: Any) -> float:
    """Sum of (p - q) ln(p / q), q of the counts before and p of those now, with half a count more in each bin."""
    q, p = ((np.asarray(counts) + 0.5) / (np.sum(counts) + 0.5 * len(counts)) for counts in (before, now))
    return float(((p - q) * np.log(p / q)).sum())


def test_loans_job__drift_is_that_of_the_test_from_the_training_rows(shipped: api.Run) -> None:
    rows = scored(shipped)
    train, test = (rows.filter(pl.col("split") == split) for split in ("train", "test"))
    found = {row["column"]: row for row in shipped.table("drift").to_polars().iter_rows(named=True)}
    assert set(found) == {"label", "prediction", *peer.FEATURES}
    for name in ("label", "purpose", "channel"):  # each value is a bin, and what is missing another
        values = rows[name].unique().sort(nulls_last=True).to_list()
        assert len(values) <= 11
        before, now = ([split[name].to_list().count(value) for value in values] for split in (train, test))
        assert found[name]["psi"] == pytest.approx(stability_index(before, now), rel=1e-9), name
        assert found[name]["missing"] == pytest.approx(test[name].null_count() / test.height)
    edges = np.unique(np.quantile(train["months_late"].to_numpy(), np.arange(1, 10) / 10, method="inverted_cdf"))  # more values: tenths
    tenths = [np.bincount(np.searchsorted(edges, split["months_late"].to_numpy()), minlength=len(edges) + 1) for split in (train, test)]
    assert found["months_late"]["psi"] == pytest.approx(stability_index(*tenths), rel=1e-9)
    for name in ("prediction", "ltv", "balance_last"):  # counted to 1 part in 256
        assert found[name]["ks"] == pytest.approx(ks_2samp(train[name].to_numpy(), test[name].to_numpy()).statistic, abs=0.015), name
    assert max(row["psi"] for row in found.values()) < 0.1
    assert shipped.record["warnings"] == []


def test_loans_job__expected_loss_by_decile_is_that_by_hand(shipped: api.Run) -> None:
    rows, found = scored(shipped), shipped.table("expected_loss").to_polars()
    assert found.height == 30
    for split in peer.SPLITS:
        loans = rows.filter(pl.col("split") == split).sort(["prediction", "loan_id"], descending=[True, False]).to_dicts()
        whole, rest = divmod(len(loans), 10)
        for decile in range(1, 11):
            some, loans = loans[: whole + (decile <= rest)], loans[whole + (decile <= rest) :]
            shares = [max(0.1, 1 - 70 / loan["balance_to_value"]) for loan in some]
            (row,) = found.filter(pl.col("split") == split, pl.col("decile") == decile).to_dicts()
            assert row["loans"] == len(some)
            assert row["least_prediction"] == pytest.approx(min(loan["prediction"] for loan in some))
            assert row["predicted"] == pytest.approx(np.mean([loan["prediction"] for loan in some]))
            assert row["observed"] == pytest.approx(np.mean([loan["label"] for loan in some]))
            assert row["balance"] == pytest.approx(sum(loan["balance_last"] for loan in some))
            for name, chance in (("expected_loss", "prediction"), ("observed_loss", "label")):
                lost = sum(loan[chance] * share * loan["balance_last"] for loan, share in zip(some, shares, strict=True))
                assert row[name] == pytest.approx(lost)
        assert not loans
    test = found.filter(pl.col("split") == "test").sort("decile")
    assert test["expected_loss"][0] > 0.4 * float(test["expected_loss"].sum()), "the riskiest tenth costs most"


def test_loans_job__stability_by_year_is_that_by_hand(shipped: api.Run) -> None:
    unseen = scored(shipped).filter(pl.col("split") != "train", pl.col("origination_year").is_not_null())
    edges = [0, 0.02, 0.05, 0.1, 0.2, 1.0001]
    grades = np.histogram(unseen["prediction"].to_numpy(), edges)[0]
    found = shipped.table("stability").to_polars()
    assert found["origination_year"].to_list() == unseen["origination_year"].unique().sort().to_list() == [2018, 2019, 2020, 2021, 2022]
    for row in found.iter_rows(named=True):
        loans = unseen.filter(pl.col("origination_year") == row["origination_year"])
        label, prediction = loans["label"].to_numpy(), loans["prediction"].to_numpy()
        counts = np.histogram(prediction, edges)[0]
        assert [row[f"grade_{letter}"] for letter in "abcde"] == counts.tolist()
        assert (row["loans"], row["late"]) == (len(label), label.sum())
        assert (row["predicted"], row["observed"]) == pytest.approx((prediction.mean(), label.mean()))
        assert row["auc"] == pytest.approx(roc_auc_score(label, prediction), rel=1e-12)
        assert row["psi"] == pytest.approx(stability_index(grades, counts), rel=1e-9)


def test_loans_job__page_shows_drift_expected_loss_and_stability(shipped: api.Run) -> None:
    page = Page(Path(shipped.report).read_text(encoding="utf-8"))
    assert {"Predictions", "Expected loss", "Stability", "Drift", "Feature importance"} <= {*page.headings}
    assert "Loss by decile of the prediction, the riskiest first, test." in page.text


def assert_same(found: api.Run, expected: api.Run) -> None:
    """Features, predictions and the model's bytes are the same."""
    assert_frame_equal(output(found, "features"), output(expected, "features"), check_exact=True)
    assert_frame_equal(output(found, "predictions"), output(expected, "predictions"), check_exact=True)
    assert model(found) == model(expected)
    for name, key in (("drift", ["column"]), ("expected_loss", ["split", "decile"]), ("stability", ["origination_year"])):
        first, second = (each.table(name).to_polars().sort(key) for each in (found, expected))
        assert_frame_equal(first, second, rel_tol=1e-12, abs_tol=1e-15)


def test_loans_job__of_one_part_and_of_seven_gives_the_same(shipped: api.Run, tmp_path: Path) -> None:
    one = run(tmp_path / "one", inputs__loans__parts=1, inputs__performance__parts=1)
    seven = run(tmp_path / "seven", inputs__loans__parts=2, inputs__performance__parts=7)
    assert [each.record["inputs"]["performance"]["parts"] for each in (one, seven)] == [1, 7]
    assert_same(one, shipped)
    assert_same(seven, shipped)


@pytest.mark.process
def test_loans_job__on_two_processes_and_on_months_spread_over_files_gives_the_same(shipped: api.Run, tmp_path: Path) -> None:
    make_loans.write_loans(tmp_path, 4000, seed=20261121, files=2, spread=True)
    spread = run(tmp_path / "results", tmp_path, cluster__workers=2)
    assert spread.record["cluster"]["workers"] == 2
    assert_same(spread, shipped)
