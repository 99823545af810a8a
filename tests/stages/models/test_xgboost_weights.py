"""xgboost's `weight`: what native XGBoost and scikit-learn make of such weights, for any parts; odd ones are refused with the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb
from sklearn import metrics as reference
from sklearn.utils.class_weight import compute_class_weight

from pipeline.errors import DataError, StageError
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import even_sizes, plan_stage
from tests.stages.models.training import NATIVE, OBJECTIVES, PEOPLE, labels, numbers, people, stage_for, train


def weighed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with weights from 0 to 3, missing where there is no binary target."""
    weights = pl.Series("weight", np.random.default_rng(3).integers(0, 7, rows.height) / 2)
    return rows.with_columns(pl.when(pl.col("binary").is_not_null()).then(weights).alias("weight"))


ROWS = weighed(PEOPLE)


def native_weighted(objective: str, factor: Any = None) -> Any:
    """Predictions of XGBoost trained by hand on the rows' weights, times a factor by label."""
    matrices = list[tuple[Any, str]]()
    for split in ("train", "validation"):
        rows = ROWS.filter((pl.col("split") == split) & pl.col(objective).is_not_null())
        target = labels(rows, objective)
        weight = rows["weight"].to_numpy() * (1 if factor is None else factor[target.astype(int)])
        ref = matrices[0][0] if matrices else None
        matrices.append((xgb.QuantileDMatrix(numbers(rows), target, weight=weight, ref=ref, max_bin=256, nthread=1), split))
    parameters = {**NATIVE, **OBJECTIVES[objective]}
    booster = xgb.train(parameters, matrices[0][0], 80, evals=matrices, early_stopping_rounds=4, verbose_eval=False)
    return booster.predict(xgb.DMatrix(numbers(ROWS)), iteration_range=(0, booster.best_iteration + 1))


def test_weight__is_xgboosts_own_for_any_parts() -> None:
    found = train(stage_for("binary", weight="weight"), ROWS)
    assert np.array_equal(found.predicted, native_weighted("binary"))
    assert not np.array_equal(found.predicted, train(stage_for("binary"), PEOPLE).predicted)
    for sizes in (even_sizes(600, 2), even_sizes(600, 7)):
        again = train(stage_for("binary", weight="weight"), ROWS, sizes)
        assert (again.model, again.metrics) == (found.model, found.metrics)


def test_weight__is_multiplied_with_the_classes_weights() -> None:
    target = labels(ROWS.filter((pl.col("split") == "train") & pl.col("binary").is_not_null()), "binary")
    factor = compute_class_weight("balanced", classes=np.unique(target), y=target)
    found = train(stage_for("binary", weight="weight", class_weight="balanced"), ROWS)
    assert np.array_equal(found.predicted, native_weighted("binary", factor))


def test_weight__counts_in_metrics_as_scikit_learns_sample_weight() -> None:
    known = ROWS.with_columns(pl.col("weight").fill_null(1.0))
    for objective in ("regression", "binary", "multiclass"):
        found = train(stage_for(objective, weight="weight"), known)
        for split in ("train", "validation", "test"):
            at = ((known["split"] == split) & known[objective].is_not_null()).to_numpy()
            y, p, w = labels(known.filter(at), objective), found.predicted[at], known["weight"].to_numpy()[at]
            if objective == "regression":
                error = reference.root_mean_squared_error(y, p, sample_weight=w)
                expected = {"rmse": error, "r2": reference.r2_score(y, p, sample_weight=w)}
            else:
                chance = p.astype(float) / p.astype(float).sum(axis=1, keepdims=True) if objective == "multiclass" else p
                classes = p.argmax(axis=1) if objective == "multiclass" else p >= 0.5
                expected = {"log_loss": reference.log_loss(y, chance, sample_weight=w)}
                expected["accuracy"] = reference.accuracy_score(y, classes, sample_weight=w)
                if objective == "binary":
                    expected["auc"] = reference.roc_auc_score(y, p, sample_weight=w)
            assert found.metrics[split] == pytest.approx(expected, rel=1e-5)


def test_weight__is_no_feature_and_scoring_does_not_need_it() -> None:
    stage = stage_for("binary", features=(), exclude=["regression", "multiclass"], weight="weight")
    found = train(stage, ROWS)
    assert found.description["features"] == ["a", "b", "group", "whole"]
    assert "weight" not in found.predictions.columns


def test_weight__over_workers_is_close_to_one_task(workers: ClusterSession) -> None:
    many = weighed(people(4000))
    stage = stage_for("binary", workers="all", weight="weight", class_weight="balanced")
    found, one = train(stage, many, even_sizes(4000, 5), workers), train(stage, many)
    plain = train(stage_for("binary"), people(4000))
    assert abs(found.predicted - one.predicted).mean() < abs(found.predicted - plain.predicted).mean() / 2
    assert found.metrics["test"]["auc"] == pytest.approx(one.metrics["test"]["auc"], abs=0.01)


@pytest.mark.parametrize("value", [None, -0.5, float("inf"), float("nan")])
def test_weight__that_is_none_is_refused_with_its_row(value: float | None, workers: ClusterSession) -> None:
    wrong = ROWS.with_columns(weight=pl.when(pl.col("id") == "p0017").then(value).otherwise("weight"))
    message = (
        rf"weight: the weight 'weight' of the row with id 'p0017' is {value}, and weights are numbers of 0 or more \(1 rows are wrong\)"
    )
    with pytest.raises(DataError, match=message):
        train(stage_for("binary", weight="weight"), wrong, even_sizes(600, 3))
    with pytest.raises(DataError, match="of the row with id 'p0017'"):
        train(stage_for("binary", weight="weight", workers="all"), wrong, even_sizes(600, 3), workers)


def test_weight__of_0_in_all_rows_of_a_split_is_refused() -> None:
    for split in ("train", "validation"):
        wrong = ROWS.with_columns(weight=pl.when(pl.col("split") == split).then(0.0).otherwise("weight"))
        with pytest.raises(DataError, match=f"every {split} row weighs 0 by 'weight'"):
            train(stage_for("binary", weight="weight"), wrong)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"weight": "wight"}, "has no column 'wight'. Did you mean 'weight'"),
        ({"weight": "multiclass"}, "column 'multiclass' is String, and numbers are needed"),
        ({"weight": "whole"}, "'whole' is the key, the target, the split or a feature already"),
        ({"weight": "binary"}, "'binary' is the key, the target, the split or a feature already"),
    ],
)
def test_weight__that_is_no_column_of_weights_is_refused_by_the_plan(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said) as raised:
        plan_stage(stage_for("binary", **more), {"rows": ROWS})
    assert raised.value.key == "weight"
