"""Measures of how well predictions fit, from arrays of truth and prediction."""

from __future__ import annotations

from typing import Any

import numpy as np


def auc(truth: Any, score: Any) -> float:
    """Area under the ROC curve of `score [n]` for `truth [n]` of 0 and 1, ties counted half; NaN where only one class is there.

    The share of pairs, one of each class, whose scores stand in the right order (Hanley & McNeil 1982, Radiology 143:29-36).
    """
    above, below = score[truth == 1], np.sort(score[truth == 0])
    pairs = len(above) * len(below)
    if pairs == 0:
        return float("nan")
    right = np.searchsorted(below, above, "left").sum() + np.searchsorted(below, above, "right").sum()
    return float(right / (2 * pairs))


def log_loss(truth: Any, probability: Any) -> float:
    """Mean negative log likelihood of classes `truth int[n]` under `probability float[n, classes]`, clipped at float32's epsilon."""
    chosen = probability[np.arange(len(truth)), truth].astype(np.float64)
    return float(-np.log(np.clip(chosen, np.finfo(np.float32).eps, 1)).mean())


def accuracy(truth: Any, predicted: Any) -> float:
    """Share of equal classes."""
    return float((truth == predicted).mean())


def rmse(truth: Any, predicted: Any) -> float:
    """Root of the mean squared error, in units of the target."""
    return float(np.sqrt(np.mean((truth - predicted) ** 2)))


def r2(truth: Any, predicted: Any) -> float:
    """Share of the variance explained; NaN where the truth does not vary."""
    total = float(((truth - truth.mean()) ** 2).sum())
    return float(1 - ((truth - predicted) ** 2).sum() / total) if total > 0 else float("nan")
