"""XGBoost's own parameters and metrics, checked by the plan: XGBoost itself is tried on a few rows, and says what it knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.backend.boosting import import_xgboost
from pipeline.errors import StageError, near

SET_BY = {
    "objective": "objective", "eval_metric": "metric", "eta": "learning_rate", "learning_rate": "learning_rate", "max_depth": "max_depth",
    "subsample": "subsample", "colsample_bytree": "colsample", "min_child_weight": "min_child_weight", "lambda": "reg_lambda",
    "reg_lambda": "reg_lambda", "max_bin": "max_bin", "num_class": "classes", "monotone_constraints": "monotone",
    "interaction_constraints": "interactions", "quantile_alpha": "quantiles", "n_estimators": "rounds", "num_boost_round": "rounds",
    "early_stopping_rounds": "early_stopping_rounds", "sample_weight": "weight",
}  # fmt: skip
"""XGBoost's names of what the stage has a key for."""
FIXED = {
    "booster": "trees grow by gbtree", "tree_method": "it is hist", "device": "the backend says it", "seed": "the job's seed is taken",
    "random_state": "the job's seed is taken", "nthread": "a worker's threads are taken", "n_jobs": "a worker's threads are taken",
    "multi_strategy": "a tree has one output", "process_type": "trees are grown anew", "updater": "trees are grown by hist",
    "refresh_leaf": "trees are grown anew", "validate_parameters": "parameters are checked", "verbosity": "XGBoost is silent",
    "disable_default_eval_metric": "the metric is set by metric", "seed_per_iteration": "the job's seed is taken",
}  # fmt: skip
"""What the stage settles by itself, and how."""
STATE = {
    "num_feature", "num_target", "num_trees", "updater_seq", "specified_updater", "name", "fail_on_invalid_gpu_id", "debug_synchronize",
    "boost_from_average",
}  # fmt: skip
"""What XGBoost's configuration lists beside parameters: the model's state."""
METRICS = {
    "regression": ("rmse", "rmsle", "mae", "mape", "poisson-nloglik", "gamma-nloglik", "gamma-deviance"),
    "binary": ("logloss", "error", "auc", "aucpr", "rmse", "mae"),
    "multiclass": ("mlogloss", "merror", "auc", "aucpr"),
    "quantile": ("quantile",),
    "ranking": ("ndcg", "map", "pre"),
}
"""XGBoost's metrics that fit an objective."""
AT = ("error", "ndcg", "map", "pre")
"""Metrics that take a number behind an @."""
ROWS = 8


def check_metric(metric: str, objective: str) -> None:
    """Raise StageError for a metric that XGBoost does not have or that does not fit the objective."""
    known, (name, at, number) = METRICS[objective], metric.partition("@")
    if name not in known or (at and (name not in AT or not _is_number(number))):
        with_number = "".join(f" {name}@NUMBER too." for name in known if name in AT)
        text = f"{metric!r} is no metric of XGBoost's for a {objective} objective.{near(name, known)}{with_number}"
        raise StageError(text, key="metric")


def check_parameters(given: Mapping[str, Any], native: Mapping[str, Any], types: Sequence[str]) -> None:
    """Raise StageError for a parameter that XGBoost does not know with this objective, that the stage sets, or that has a wrong value.

    `native` are all parameters as training hands them over; `types` are the types of the features.
    """
    for name in given:
        if name in SET_BY:
            raise StageError(f"{name!r} is set by the stage's key {SET_BY[name]!r}. Give it there.", key="parameters")
        if name in FIXED:
            raise StageError(f"{name!r} is not to be chosen: {FIXED[name]}. Leave it out.", key="parameters")
    known = set(_names(_tried({name: value for name, value in native.items() if name not in given}, types)))
    known -= {*SET_BY, *FIXED, *STATE}
    for name in given:
        if name not in known:
            text = f"XGBoost has no parameter {name!r} for objective {native['objective']}.{near(name, known)}"
            raise StageError(text, key="parameters")
    _tried(native, types)


def _tried(native: Mapping[str, Any], types: Sequence[str]) -> Mapping[str, Any]:
    """XGBoost's configuration after one round on rows of zeros. Raises StageError with what XGBoost says against the parameters."""
    xgb = import_xgboost()
    labels = np.arange(max(ROWS, native.get("num_class", 0))) % native.get("num_class", 2)
    try:
        more = {"qid": np.zeros(len(labels), int)} if native["objective"].startswith("rank") else {}
        matrix = xgb.DMatrix(
            np.zeros((len(labels), len(types))), labels, feature_types=list(types), enable_categorical=True, nthread=1, **more
        )
        booster = xgb.train({**native, "device": "cpu", "nthread": 1}, matrix, 1, evals=[(matrix, "tried")], verbose_eval=False)
        found: Mapping[str, Any] = json.loads(booster.save_config())["learner"]
    except (xgb.core.XGBoostError, ValueError) as error:
        raise StageError(f"XGBoost refuses them: {said(error)}", key="parameters") from error
    return found


def said(error: Exception) -> str:
    """What XGBoost says in an error, without its time, its place in the source and its stack."""
    text = " ".join(str(error).partition("Stack trace")[0].split())
    return text.partition("] ")[2] or text


def _names(config: Any) -> Iterator[str]:
    """The names of all values in a configuration."""
    inner = config.values() if isinstance(config, Mapping) else config if isinstance(config, list) else ()
    if isinstance(config, Mapping):
        yield from (name for name, value in config.items() if not isinstance(value, Mapping | list))
    for value in inner:
        yield from _names(value)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
