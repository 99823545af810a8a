"""Measures of how well predictions fit, from arrays of truth and prediction."""

from __future__ import annotations

from typing import Any

import numpy as np


def auc(truth: Any, score: Any) -> float:
    """Area under the ROC curve of `score [n]` for `truth [n]` of 0 and 1, ties counted half; NaN where only one class is there.

    The rank-sum form of Hanley & McNeil (1982), Radiology 143:29-36.
    """
    positives, n = float(truth.sum()), len(truth)
    if positives in (0.0, float(n)):
        return float("nan")
    values, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    del values
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return float((ranks[inverse][truth == 1].sum() - positives * (positives + 1) / 2) / (positives * (n - positives)))


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
