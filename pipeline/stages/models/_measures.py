"""How much each row weighs in training, and how well predictions fit: both by the objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    found = dict[str, dict[str, float]]()
    for split, of in members(labels, weights):
        truth, score, weight = labels.values[of], predicted[of], None if weights is None else weights[of]
        if stage.objective == "regression":
            found[split] = {"rmse": rmse(truth, score, weight), "r2": r2(truth, score, weight)}
        else:
            area = {"auc": auc(truth, score, weight)} if stage.objective == "binary" else {}
            found[split] = {**area, **class_means(stage, truth, score, weight)}
    return finite(found)


def members(labels: Labels, weights: Any) -> Iterator[tuple[str, Any]]:
    """The splits that have rows with a label, and which; with weights of those that weigh something."""
    for split in SPLITS:
        of = labels.of_split(split) if weights is None else labels.of_split(split) & (weights > 0)
        if of.any():
            yield split, of


def class_means(stage: Supervised, truth: Any, score: Any, weight: Any) -> dict[str, float]:
    """The metrics of classes that are means over rows."""
    if stage.objective == "binary":
        return {"log_loss": log_loss(truth, score, weight), "accuracy": accuracy(truth, score >= 0.5, weight)}
    return {"log_loss": log_loss(truth.astype(int), score, weight), "accuracy": accuracy(truth, score.argmax(axis=1), weight)}


def finite(found: Mapping[str, Mapping[str, float]]) -> Metrics:
    """Metrics by split, null for one that its rows cannot have."""
    return {split: {name: value if np.isfinite(value) else None for name, value in of.items()} for split, of in found.items()}
