"""What training needs to know beside the rows: parameters, features, labels, weights and measures of one xgboost stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_host
from pipeline.backend.boosting import xgboost_device
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.metrics import accuracy, auc, log_loss, r2, rmse
from pipeline.tables.columns import AXES, AXIS_IDS
from pipeline.tables.part import Part

SPLITS = ("train", "validation", "test")
HELD_BYTES = 256 << 20  # features up to this size are converted once, not once a pass
BATCH_ROWS = 131_072  # rows handed over at once; fixed, so that the model does not depend on how the rows are divided
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
    lean: bool = False

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

    def features(self, part: Part) -> Any:
        """Features of a part's rows to train on: the matrix, or where there are no arrays the frame, which XGBoost bins faster."""
        return self.matrix(part) if self.arrays else part.frame.select(pl.col(self.columns).cast(pl.Float32))

    def check_finite(self, frame: pl.DataFrame) -> None:
        """Raise DataError for a feature with a value that XGBoost's 32 bits cannot hold."""
        if not self.columns:
            return
        largest = frame.select(pl.col(name).cast(pl.Float64).abs().max() for name in self.columns).row(0)
        for name, value in zip(self.columns, largest, strict=True):
            if value is not None and value > np.finfo(np.float32).max:
                raise DataError(
                    f"feature {name!r} has infinite values (a division by zero?), or some beyond the 32 bits of "
                    "XGBoost's numbers. Make them null, or leave it out by exclude."
                )

    def labels(self, rows: pl.DataFrame) -> np.ndarray[Any, Any]:
        """The target, float64 [rows], class numbers for several classes, NaN where missing."""
        target = rows[self.p["target"]]
        if self.classes:
            numbers = {name: float(i) for i, name in enumerate(self.classes)}
            target = target.cast(pl.String).replace_strict(numbers, default=None, return_dtype=pl.Float64)
        numeric: np.ndarray[Any, Any] = target.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return numeric

    def split(self, rows: pl.DataFrame) -> np.ndarray[Any, Any]:
        """Which split each row is of, int8 [rows]: its place in SPLITS, -1 for none of them; all train without a split column."""
        if not self.p["split"]:
            return np.zeros(rows.height, np.int8)
        codes = {name: code for code, name in enumerate(SPLITS)}
        found: np.ndarray[Any, Any] = rows[self.p["split"]].replace_strict(codes, default=-1, return_dtype=pl.Int8).to_numpy()
        return found


@dataclass(frozen=True)
class Rows:
    """Rows to train on and to predict: their part, labels float64 [rows] (NaN: none) and splits int8 [rows]."""

    task: Task
    part: Part
    labels: np.ndarray[Any, Any]
    split: np.ndarray[Any, Any]

    @staticmethod
    def of(task: Task, part: Part) -> Rows:
        """The rows of a part. Raises DataError for an infinite feature."""
        task.check_finite(part.frame)
        return Rows(task, part, task.labels(part.frame), task.split(part.frame))

    def batches(self, split: str) -> Iterator[tuple[Any, Any]]:
        """Features and labels of one split's rows that have a label, a fixed number of source rows at a time."""
        for at in self._slices():
            wanted = np.flatnonzero(self.of_split(split, at))
            if len(wanted):
                yield self.task.features(self._piece(at, wanted)), self.labels[at][wanted]

    def passes(self, split: str) -> Callable[[], Iterator[tuple[Any, Any]]]:
        """The batches of one split as often as they are asked for (XGBoost goes over them several times): held where they are small."""
        if 4 * len(self.task.columns) * len(self.labels) > HELD_BYTES or self.task.arrays:
            return partial(self.batches, split)
        return list(self.batches(split)).__iter__

    def matrices(self) -> Iterator[np.ndarray[Any, Any]]:
        """Features of all rows in order, a fixed number of rows at a time."""
        return (self.task.matrix(self._piece(at)) for at in self._slices())

    def of_split(self, split: str, at: slice = slice(None)) -> np.ndarray[Any, Any]:
        """Which rows (of those at `at`) are of a split and have a label."""
        return chosen_rows(self.labels[at], self.split[at], split)

    def _slices(self) -> list[slice]:
        return [slice(start, start + BATCH_ROWS) for start in range(0, max(len(self.labels), 1), BATCH_ROWS)]

    def _piece(self, at: slice, wanted: Any = slice(None)) -> Part:
        return Part(self.part.frame[at][wanted], {name: array[at][wanted] for name, array in self.part.arrays.items()})


def chosen_rows(labels: np.ndarray[Any, Any], codes: np.ndarray[Any, Any], split: str) -> np.ndarray[Any, Any]:
    """Which rows are of a split and have a label, from their labels and split codes."""
    chosen: np.ndarray[Any, Any] = (codes == SPLITS.index(split)) & ~np.isnan(labels)
    return chosen


def class_weights(task: Task, labels: Any) -> Callable[[Any], Any]:
    """Labels to row weights, from the training rows' labels: None where all weigh the same, else n / (classes x rows of the class)."""
    if task.p["class_weight"] == "none" or task.p["objective"] == "regression":
        return _same_weight
    counts = np.bincount(labels.astype(int), minlength=max(2, len(task.classes)))
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return partial(_weights, weights)


def _weights(weights: Any, labels: Any) -> Any:
    return weights[labels.astype(int)]


def _same_weight(_labels: Any) -> None:
    """No weights: every row weighs the same."""


def measured(task: Task, truth: Any, score: Any) -> dict[str, float | None]:
    """The metrics that fit the objective, of rows that have a label (one row at least); null for one that such rows cannot have."""
    if task.p["objective"] == "regression":
        found = {"rmse": rmse(truth, score), "r2": r2(truth, score)}
    elif task.p["objective"] == "binary":
        both = np.column_stack([1 - score, score])
        found = {"auc": auc(truth, score), "log_loss": log_loss(truth.astype(int), both), "accuracy": accuracy(truth, (score >= 0.5) * 1.0)}
    else:
        found = {"log_loss": log_loss(truth.astype(int), score), "accuracy": accuracy(truth, score.argmax(axis=1))}
    return {name: value if np.isfinite(value) else None for name, value in found.items()}
