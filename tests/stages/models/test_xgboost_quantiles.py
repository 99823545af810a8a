"""xgboost's quantile regression: native XGBoost's predictions, and scikit-learn's pinball loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb
from sklearn.metrics import mean_pinball_loss

from pipeline.errors import StageError
from pipeline.testing.stages import even_sizes, plan_stage
from tests.stages.models.training import CLASSES, FEATURES, NATIVE, PEOPLE, Result, numbers, stage_for, train

QUANTILES = [0.1, 0.5, 0.9]
COLUMNS = [f"prediction_{quantile}" for quantile in QUANTILES]


def stage_of(**more: Any) -> Any:
    return stage_for(**{"objective": "quantile", "target": "regression", "quantiles": QUANTILES, "rounds": 60, **more})


def by_hand() -> Any:
    """XGBoost's own quantile regression."""
    matrices = list[tuple[Any, str]]()
    for split in ("train", "validation"):
        rows = PEOPLE.filter((pl.col("split") == split) & pl.col("regression").is_not_null())
        ref = matrices[0][0] if matrices else None
        matrices.append((xgb.QuantileDMatrix(numbers(rows), rows["regression"].to_numpy(), ref=ref, max_bin=256, nthread=1), split))
    parameters = {**NATIVE, "objective": "reg:quantileerror", "quantile_alpha": QUANTILES, "eval_metric": "quantile"}
    booster = xgb.train(parameters, matrices[0][0], 60, evals=matrices, early_stopping_rounds=4, verbose_eval=False)
    return booster.predict(xgb.DMatrix(numbers(PEOPLE)), iteration_range=(0, booster.best_iteration + 1))


def check_metrics(found: Result, rows: pl.DataFrame) -> None:
    """The metrics are those of scikit-learn."""
    for split in ("train", "validation", "test"):
        part = found.predictions.filter((rows["split"] == split) & rows["regression"].is_not_null())
        truth, losses = part["regression"].to_numpy(), list[float]()
        for quantile, column in zip(QUANTILES, COLUMNS, strict=True):
            losses.append(mean_pinball_loss(truth, part[column].to_numpy(), alpha=quantile))
            assert found.metrics[split][f"pinball_loss_{quantile}"] == pytest.approx(losses[-1], rel=1e-6)
            assert found.metrics[split][f"coverage_{quantile}"] == pytest.approx((truth <= part[column].to_numpy()).mean(), rel=1e-12)
        assert found.metrics[split]["pinball_loss"] == pytest.approx(np.mean(losses), rel=1e-6)


def test_quantiles__are_native_xgboosts_for_any_parts() -> None:
    found = train(stage_of(), PEOPLE)
    assert found.predictions.columns == ["id", "split", "regression", *COLUMNS]
    assert np.array_equal(found.predicted, by_hand())
    assert found.description["predicts"] == dict.fromkeys(COLUMNS, "Float32")
    check_metrics(found, PEOPLE)
    test = found.metrics["train"]
    assert (test["coverage_0.1"] or 1) < 0.25 < (test["coverage_0.5"] or 0) < 0.75 < (test["coverage_0.9"] or 0)
    again = train(stage_of(), PEOPLE, even_sizes(600, 7))
    assert (again.model, again.metrics) == (found.model, found.metrics)
    assert again.predictions.equals(found.predictions)


def test_quantiles__are_explained_one_by_one() -> None:
    found = train(stage_of(explain=True), PEOPLE)
    assert found.tables["shap"].columns == ["id", "quantile", *FEATURES, "bias"]
    margin = found.booster.predict(xgb.DMatrix(numbers(PEOPLE), feature_names=FEATURES, feature_types=["q"] * 4), output_margin=True)
    for at, quantile in enumerate(QUANTILES):
        block = found.tables["shap"].filter(pl.col("quantile") == quantile)
        sums = block.select(*FEATURES, "bias").to_numpy().sum(axis=1, dtype=np.float64)
        assert sums == pytest.approx(margin[:, at], abs=2e-5)


def test_one_quantile__is_a_column_too() -> None:
    found = train(stage_of(quantiles=[0.5], weight="weight"), PEOPLE.with_columns(weight=pl.lit(2)))
    assert found.predictions.columns == ["id", "split", "regression", "prediction_0.5"]
    assert list(found.metrics["test"]) == ["pinball_loss", "pinball_loss_0.5", "coverage_0.5"]


@pytest.mark.parametrize(
    ("more", "said", "key"),
    [
        ({"quantiles": []}, "quantiles between 0 and 1 of a quantile objective, and of no other", "quantiles"),
        ({"objective": "regression"}, "quantiles between 0 and 1 of a quantile objective, and of no other", "quantiles"),
        ({"quantiles": [0.0, 0.5]}, r"\[0\.0, 0\.5\] must be between 0 and 1, from low to high, each once", "quantiles"),
        ({"quantiles": [0.5, 0.5]}, "each once", "quantiles"),
        ({"quantiles": [0.9, 0.1]}, "from low to high", "quantiles"),
        ({"classes": CLASSES}, "the values of a multi-class target, at least 3, and of no other", "classes"),
        ({"class_weight": "balanced"}, "balanced is for classes, and a quantile has none", "class_weight"),
        ({"metric": "rmse"}, "'rmse' is no metric of XGBoost's for a quantile objective", "metric"),
        ({"target": "multiclass"}, "target 'multiclass' is String; a quantile objective needs numbers", "target"),
        ({"parameters": {"quantile_alpha": 0.1}}, "'quantile_alpha' is set by the stage's key 'quantiles'", "parameters"),
    ],
)
def test_quantiles__that_cannot_be_are_refused_by_the_plan(more: dict[str, Any], said: str, key: str) -> None:
    with pytest.raises(StageError, match=said) as raised:
        plan_stage(stage_of(**more), {"rows": PEOPLE})
    assert raised.value.key == key
