"""What training needs to know beside the rows: parameters, features, labels, weights and measures of one xgboost stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend import Backend, to_host, xgboost_device
from pipeline.columns import AXES, AXIS_IDS
from pipeline.kernels.metrics import accuracy, auc, log_loss, r2, rmse
from pipeline.part import Part

OBJECTIVES = {
    "regression": ("reg:squarederror", "rmse"),
    "binary": ("binary:logistic", "logloss"),
    "multiclass": ("multi:softprob", "mlogloss"),
}


@dataclass(frozen=True)
class Task:
    """What training needs to know beside the rows: the stage's parameters (`p`), the frame's feature columns and the arrays."""

    stage: str
    p: Mapping[str, Any]
    columns: tuple[str, ...]
    arrays: tuple[str, ...]
    seed: int
    backend: Backend
    threads: int

    @property
    def classes(self) -> list[str]:
        """Values of a multi-class target as text; empty for other objectives."""
        return [str(value) for value in self.p["classes"]]

    def names(self, axes: Sequence[pl.DataFrame]) -> list[str]:
        """Names of all features in order: the frame's, then the arrays' columns by their axis."""
        return [
            *self.columns,
            *(name for array, axis in zip(self.arrays, axes, strict=True) for name in axis[AXIS_IDS[AXES[array]]].to_list()),
        ]

    def types(self, names: Sequence[str]) -> list[str]:
        """XGBoost's feature types: c for categories, q for numbers."""
        return ["c" if name in self.p["categorical"] else "q" for name in names]

    def parameters(self) -> dict[str, Any]:
        """XGBoost's training parameters."""
        objective, metric = OBJECTIVES[self.p["objective"]]
        same = ("max_depth", "learning_rate", "subsample", "min_child_weight", "reg_lambda", "max_bin")
        own = {
            "objective": objective,
            "eval_metric": metric,
            "tree_method": "hist",
            "device": xgboost_device(self.backend),
            "seed": self.seed,
        }
        classes = {"num_class": len(self.classes)} if self.classes else {}
        return {**own, **{name: self.p[name] for name in same}, "colsample_bytree": self.p["colsample"], "nthread": self.threads, **classes}

    def matrix(self, part: Part) -> np.ndarray[Any, Any]:
        """Features of a part's rows, float32 [rows, features], NaN where missing."""
        empty = np.empty((part.frame.height, 0), np.float32)
        columns: np.ndarray[Any, Any] = part.frame.select(pl.col(self.columns).cast(pl.Float32)).to_numpy() if self.columns else empty
        arrays = [to_host(part.arrays[name]) for name in self.arrays]
        matrix: np.ndarray[Any, Any] = np.hstack([columns, *arrays], dtype=np.float32) if arrays else columns
        return matrix

    def labels(self, rows: pl.DataFrame) -> np.ndarray[Any, Any]:
        """The target, float64 [rows], class numbers for several classes, NaN where missing."""
        target = rows[self.p["target"]]
        if self.classes:
            numbers = {name: float(i) for i, name in enumerate(self.classes)}
            target = target.cast(pl.String).replace_strict(numbers, default=None, return_dtype=pl.Float64)
        return target.cast(pl.Float64).fill_null(float("nan")).to_numpy()

    def split(self, rows: pl.DataFrame) -> np.ndarray[Any, Any]:
        """Which split each row is of; `train` where the stage has no split column."""
        name = self.p["split"]
        return rows[name].to_numpy() if name else np.full(rows.height, "train")


def class_weights(task: Task, rows: pl.DataFrame) -> Callable[[Any], Any]:
    """Labels to row weights: None where all weigh the same, else n / (classes x rows of the class) over the training rows."""
    if task.p["class_weight"] == "none" or task.p["objective"] == "regression":
        return _same_weight
    labels = task.labels(rows)
    counted = labels[(task.split(rows) == "train") & ~np.isnan(labels)].astype(int)
    counts = np.bincount(counted, minlength=max(2, len(task.classes)))
    weights = len(counted) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return lambda labels: weights[labels.astype(int)]


def _same_weight(_labels: Any) -> None:
    """No weights: every row weighs the same."""


def measured(task: Task, labels: Any, predicted: Any) -> dict[str, float | None]:
    """The metrics that fit the objective, over the rows with a target; null where there is none to measure."""
    known = ~np.isnan(labels)
    truth, score = labels[known], predicted[known]
    if len(truth) == 0:
        return {"rows": 0}
    if task.p["objective"] == "regression":
        found = {"rmse": rmse(truth, score), "r2": r2(truth, score)}
    elif task.p["objective"] == "binary":
        both = np.column_stack([1 - score, score])
        found = {"auc": auc(truth, score), "log_loss": log_loss(truth.astype(int), both), "accuracy": accuracy(truth, (score >= 0.5) * 1.0)}
    else:
        found = {"log_loss": log_loss(truth.astype(int), score), "accuracy": accuracy(truth, score.argmax(axis=1))}
    return {name: value if np.isfinite(value) else None for name, value in found.items()}
