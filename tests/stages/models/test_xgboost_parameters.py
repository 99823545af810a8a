"""xgboost's parameters by XGBoost's own names, its metrics and its constraints: as XGBoost takes them by hand, and refused by the plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost as xgb

from pipeline.errors import StageError
from pipeline.stages.models._trees.boosted_trees import OBJECTIVES as NATIVE_OF
from pipeline.stages.models._trees.parameters import METRICS as KNOWN
from pipeline.testing.stages import even_sizes, plan_stage
from tests.stages.models.training import FEATURES, PEOPLE, native, numbers, stage_for, train

OWN: list[tuple[str, dict[str, Any]]] = [
    ("regression", {"gamma": 0.5, "grow_policy": "lossguide", "max_leaves": 7}),
    ("binary", {"scale_pos_weight": 3.0, "max_delta_step": 1, "alpha": 0.3, "num_parallel_tree": 2}),
    ("multiclass", {"colsample_bylevel": 0.5, "min_split_loss": 0.2}),
]


@pytest.mark.parametrize(("objective", "own"), OWN, ids=[objective for objective, _ in OWN])
def test_parameters__are_xgboosts_own(objective: str, own: dict[str, Any]) -> None:
    found = train(stage_for(objective, parameters=own), PEOPLE)
    assert np.array_equal(found.predicted, native(PEOPLE, objective, **own)[1])
    assert found.model != train(stage_for(objective), PEOPLE).model
    assert {name: found.description["parameters"][name] for name in own} == own
    assert train(stage_for(objective, parameters=own), PEOPLE, even_sizes(600, 7)).model == found.model


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"gama": 1}, r"XGBoost has no parameter 'gama' for objective binary:logistic\. Did you mean 'gamma'\?"),
        ({"lambdarank_num_pair_per_sample": 2}, "no parameter 'lambdarank_num_pair_per_sample' for objective binary:logistic"),
        ({"num_feature": 3}, "no parameter 'num_feature'"),
        ({"eta": 0.1}, "'eta' is set by the stage's key 'learning_rate'. Give it there"),
        ({"lambda": 0.1}, "'lambda' is set by the stage's key 'reg_lambda'"),
        ({"eval_metric": "auc"}, "'eval_metric' is set by the stage's key 'metric'"),
        ({"tree_method": "exact"}, "'tree_method' is not to be chosen: it is hist"),
        ({"gamma": -1}, "XGBoost refuses them: value -1 for Parameter min_split_loss should be greater equal to 0"),
        ({"grow_policy": "widthwise"}, "XGBoost refuses them: Invalid Input: 'widthwise', valid values are"),
        ({"max_leaves": "many"}, "XGBoost refuses them: Invalid Parameter format for max_leaves expect int but value='many'"),
    ],
)
def test_parameters__that_xgboost_does_not_take_are_refused_by_the_plan(own: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said) as raised:
        plan_stage(stage_for("binary", parameters=own), {"rows": PEOPLE})
    assert raised.value.key == "parameters"
    assert "\n" not in str(raised.value)


def test_every_key_of_the_stage__has_its_native_name_refused() -> None:
    stage = stage_for("multiclass", monotone={"a": 1}, interactions=[["a", "b"]])
    for name in stage.native(1, "cpu", 1):
        with pytest.raises(StageError, match=f"'{name}' is (set by|not to be chosen)"):
            plan_stage(stage_for("multiclass", parameters={name: 1}), {"rows": PEOPLE})


METRICS = [("regression", "mae"), ("binary", "auc"), ("binary", "aucpr"), ("binary", "error@0.7"), ("multiclass", "merror")]


@pytest.mark.parametrize(("objective", "metric"), METRICS)
def test_metric__is_what_early_stopping_watches(objective: str, metric: str) -> None:
    found = train(stage_for(objective, metric=metric), PEOPLE)
    booster, expected = native(PEOPLE, objective, eval_metric=metric)
    assert np.array_equal(found.predicted, expected)
    assert found.counts["trees_used"] == booster.best_iteration + 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"metric": "acu"}, r"'acu' is no metric of XGBoost's for a binary objective\. Did you mean 'auc'\?"),
        ({"metric": "mlogloss"}, "'mlogloss' is no metric of XGBoost's for a binary objective"),
        ({"metric": "auc@3"}, "'auc@3' is no metric"),
        ({"metric": "error@half"}, "'error@half' is no metric.*error@NUMBER too"),
        ({"metric": "auc", "early_stopping_rounds": None}, "it is what early stopping watches: give early_stopping_rounds too"),
        ({"monotone": {"aa": 1}}, "has no column 'aa'"),
        ({"monotone": {"regression": 1}}, "'regression' is no feature of the model"),
        ({"monotone": {"group": 1}, "categorical": ["group"]}, "'group' is categorical: its codes have no order"),
        ({"interactions": [["a", "binary"]]}, "'binary' is no feature of the model"),
        ({"interactions": [[]]}, "a set of features has one at least"),
    ],
)
def test_metrics_and_constraints__that_do_not_fit_are_refused_by_the_plan(more: dict[str, Any], said: str) -> None:
    with pytest.raises(StageError, match=said) as raised:
        plan_stage(stage_for("binary", **more), {"rows": PEOPLE})
    assert raised.value.key in more


def test_metrics__of_every_objective_are_xgboosts() -> None:
    assert set(KNOWN) == set(NATIVE_OF)
    for objective, names in KNOWN.items():
        labels = [1, 2, 1, 0, 1, 2] if objective in {"multiclass", "regression"} else [0, 1, 0, 1, 1, 0]
        matrix = xgb.DMatrix(np.zeros((6, 1)), labels, qid=[0] * 6 if objective == "ranking" else None)
        quantiles = [0.1, 0.9] if objective == "quantile" else []
        for name in names:
            given = {**stage_for(objective, quantiles=quantiles).native(1, "cpu", 1), "eval_metric": name}
            history: dict[str, Any] = {}
            xgb.train(given, matrix, 1, evals=[(matrix, "seen")], evals_result=history, verbose_eval=False)
            assert list(history["seen"]) == [name]


def test_monotone__predictions_rise_and_fall_with_the_features_as_natively() -> None:
    found = train(stage_for("regression", monotone={"a": -1, "b": 1}), PEOPLE)
    _, expected = native(PEOPLE, "regression", monotone_constraints=(-1, 1, 0, 0))
    assert np.array_equal(found.predicted, expected)
    steps = np.linspace(-3, 3, 200, dtype=np.float32)
    for at, sign in ((0, -1), (1, 1)):
        rows = np.repeat(numbers(PEOPLE.head(1)), len(steps), axis=0)
        rows[:, at] = steps
        along = found.booster.predict(xgb.DMatrix(rows, feature_names=FEATURES, feature_types=["q"] * 4))
        assert (sign * np.diff(along) >= 0).all()


def test_interactions__features_of_different_sets_do_not_share_a_path() -> None:
    found = train(stage_for("regression", interactions=[["a", "b"], ["group", "whole"]]), PEOPLE)
    _, expected = native(PEOPLE, "regression", interaction_constraints="[[0, 1], [2, 3]]")
    assert np.array_equal(found.predicted, expected)
    for tree in found.booster.get_dump():
        used = {name for name in FEATURES if f"[{name}<" in tree}
        assert used <= {"a", "b"} or used <= {"group", "whole"}
