"""How much each row weighs in training, and how well predictions fit: both by the objective."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pipeline.kernels.metrics import accuracy, auc, log_loss, r2, rmse
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import SPLITS, Labels

Metrics = dict[str, dict[str, float | None]]


def class_weights(stage: Supervised, labels: Labels) -> Callable[[Any], Any]:
    """Labels to row weights, from the training rows' labels: None where all weigh the same, else n / (classes x rows of the class)."""
    if stage.class_weight == "none" or stage.objective == "regression":
        return _same_weight
    seen = labels.values[labels.of_split("train")]
    counts = np.bincount(seen.astype(int), minlength=max(2, len(stage.classes)))
    return partial(_weights, balanced_weights(counts))


def balanced_weights(counts: Any) -> Any:
    """The weight of a row of each class, n / (classes x rows of the class), from the classes' rows."""
    return counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))


def _weights(weights: Any, labels: Any) -> Any:
    return weights[labels.astype(int)]


def _same_weight(_labels: Any) -> None:
    """No weights: every row weighs the same."""


def measured(stage: Supervised, labels: Labels, predicted: Any, weights: Any = None) -> Metrics:
    """The metrics of every split that has rows with a label, of predictions [rows] or [rows, classes].

    `weights [rows]` say how many rows a row stands for; those of 0 are left out.
    """
    members = {name: labels.of_split(name) for name in SPLITS}
    if weights is not None:
        members = {name: of & (weights > 0) for name, of in members.items()}
    return {
        name: _measured(stage, labels.values[of], predicted[of], None if weights is None else weights[of])
        for name, of in members.items()
        if of.any()
    }


def _measured(stage: Supervised, truth: Any, score: Any, weight: Any) -> dict[str, float | None]:
    """The metrics that fit the objective, of rows that have a label (one row at least); null for one that such rows cannot have."""
    if stage.objective == "regression":
        found = {"rmse": rmse(truth, score, weight), "r2": r2(truth, score, weight)}
    elif stage.objective == "binary":
        loss, right = log_loss(truth, score, weight), accuracy(truth, score >= 0.5, weight)
        found = {"auc": auc(truth, score, weight), "log_loss": loss, "accuracy": right}
    else:
        right = accuracy(truth, score.argmax(axis=1), weight)
        found = {"log_loss": log_loss(truth.astype(int), score, weight), "accuracy": right}
    return {name: value if np.isfinite(value) else None for name, value in found.items()}
