"""linear's `weight`: a row of weight 2 counts as two, for every family and any parts, and as scikit-learn and statsmodels weigh rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError
from pipeline.stages.models.linear import Linear
from pipeline.testing.stages import even_sizes
from tests.stages.models.fitting import PEOPLE, fit, stage_for, standardized

TARGETS = ["normal", "binary", "poisson", "gamma", "multiclass"]
PENALTIES = [{}, {"l2": 0.1}, {"l1": 0.02}, {"l1": 0.01, "l2": 0.05}]
SOLVED = 1e-6


def weighed(rows: pl.DataFrame, target: str) -> pl.DataFrame:
    """The rows with weights of 0 to 3, missing where there is no target."""
    weights = pl.Series("weight", np.random.default_rng(7).integers(0, 4, rows.height))
    return rows.with_columns(pl.when(pl.col(target).is_not_null()).then(weights).alias("weight"))


def repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """As many rows of each as it weighs; none but those that are predicted only is left out, and keys are new."""
    often = rows["weight"].fill_null(1)
    return rows.select(pl.all().repeat_by(often).explode(keep_nulls=False, empty_as_null=False)).with_columns(
        id=pl.int_range(pl.len()), of=rows["id"].repeat_by(often).explode(keep_nulls=False, empty_as_null=False)
    )


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_weight__of_a_row_is_how_often_it_counts(target: str, penalty: dict[str, Any]) -> None:
    rows = weighed(PEOPLE, target)
    several = repeated(rows)
    found = fit(stage_for(target, weight="weight", **penalty), rows)
    expected = fit(stage_for(target, exclude=("weight", "of"), **penalty), several)
    columns = [name for name in found.predictions.columns if name.startswith("prediction")]
    here = several.select(id="of").join(found.predictions, on="id", how="left", maintain_order="left").select(columns)
    np.testing.assert_allclose(here, expected.predictions.select(columns), rtol=SOLVED, atol=SOLVED)
    for split, metrics in expected.metrics.items():
        assert found.metrics[split] == pytest.approx(metrics, rel=SOLVED), split


@pytest.mark.parametrize("target", ["normal", "binary", "poisson"])
def test_weight__is_scikit_learns_sample_weight_and_its_unit_is_none(target: str) -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

    shares = pl.Series("weight", np.random.default_rng(8).gamma(1, 1, PEOPLE.height))
    rows = PEOPLE.with_columns(shares)
    columns, train, known, _ = standardized(PEOPLE, target)
    models = {
        "normal": LinearRegression(),
        "binary": LogisticRegression(C=1e12, tol=1e-10, max_iter=10_000),
        "poisson": PoissonRegressor(alpha=0, tol=1e-10, max_iter=10_000, solver="newton-cholesky"),
    }
    # without a penalty what missing numbers count as is all that is left of the columns' means, so rows with none are compared
    whole = PEOPLE["a"].is_not_null().to_numpy()
    complete = rows.filter(whole)
    model = models[target].fit(columns[train & whole], known[whole[train]], sample_weight=shares.to_numpy()[train & whole])
    predicted = model.predict_proba(columns)[:, 1] if target == "binary" else model.predict(columns)
    found = fit(stage_for(target, weight="weight"), complete)
    np.testing.assert_allclose(found.predicted, predicted[whole], rtol=SOLVED, atol=SOLVED)
    scaled = fit(stage_for(target, weight="weight"), complete.with_columns(pl.col("weight") * 1e-3))
    np.testing.assert_allclose(scaled.predicted, found.predicted, rtol=SOLVED)
    assert np.isnan(found.column("standard_error")).all()


@pytest.mark.parametrize("parts", [2, 7])
@pytest.mark.parametrize("target", TARGETS)
def test_weight__gives_the_same_for_any_parts(target: str, parts: int) -> None:
    rows = weighed(PEOPLE, target)
    stage = stage_for(target, weight="weight", l2=0.01, early_stopping_rounds=3)
    whole, cut = fit(stage, rows), fit(stage, rows, even_sizes(rows.height, parts))
    np.testing.assert_allclose(cut.predicted, whole.predicted, rtol=SOLVED, atol=SOLVED)


def test_weight__is_multiplied_with_the_classes_weights_and_counts_where_training_stops() -> None:
    from sklearn.linear_model import LogisticRegression

    rows = weighed(PEOPLE, "binary").filter(pl.col("a").is_not_null())
    stage = stage_for("binary", weight="weight", class_weight="balanced", l2=1e-9)
    columns, train, known, _ = standardized(rows, "binary")
    own = rows["weight"].to_numpy()[train]
    factor = len(known) / (2 * np.bincount(known.astype(int)))
    model = LogisticRegression(C=1e12, tol=1e-10, max_iter=10_000)
    model.fit(columns[train], known, sample_weight=own * factor[known.astype(int)])
    np.testing.assert_allclose(fit(stage, rows).predicted, model.predict_proba(columns)[:, 1], rtol=1e-5, atol=1e-5)
    watched = fit(stage_for("binary", weight="weight", early_stopping_rounds=3), rows)
    others = rows.with_columns(pl.when(pl.col("split") != "validation").then("weight").otherwise(1).alias("weight"))
    values = [run.history.filter(pl.col("split") == "validation")["value"][0] for run in (watched, fit(watched_stage(), others))]
    assert values[0] != values[1]


def watched_stage() -> Linear:
    """A stage with weights that stops early."""
    return stage_for("binary", weight="weight", early_stopping_rounds=3)


def test_weight__that_is_none_is_refused_with_the_row() -> None:
    rows = weighed(PEOPLE, "normal")
    at = rows.select(pl.col("normal").is_not_null().arg_max()).item()
    for wrong in (None, -1.0, float("inf")):
        odd = rows.with_columns(pl.when(pl.col("id") == at).then(wrong).otherwise(pl.col("weight").cast(pl.Float64)).alias("weight"))
        with pytest.raises(DataError, match=f"the weight 'weight' of the row with id {at} is {wrong}"):
            fit(stage_for("normal", weight="weight"), odd)
    with pytest.raises(DataError, match="every train row weighs 0 by 'weight'"):
        fit(stage_for("normal", weight="weight"), rows.with_columns(weight=0))
    nothing = pl.when(pl.col("split") == "validation").then(0).otherwise("weight").alias("weight")
    with pytest.raises(DataError, match="every validation row weighs 0 by 'weight'"):
        fit(stage_for("normal", weight="weight", early_stopping_rounds=2), rows.with_columns(nothing))
