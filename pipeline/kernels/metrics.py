"""Measures of how well predictions fit, from arrays of truth and prediction; `weight [n]`, above 0, says how many rows a row stands for."""

from __future__ import annotations

from typing import Any

import numpy as np


def auc(truth: Any, score: Any, weight: Any = None) -> float:
    """Area under the ROC curve of `score [n]` for `truth [n]` of 0 and 1, ties counted half; NaN where only one class is there.

    The share of pairs, one of each class, whose scores stand in the right order (Hanley & McNeil 1982, Radiology 143:29-36).
    """
    above, below = truth == 1, truth == 0
    weights = (None, None) if weight is None else (weight[above], weight[below])
    return auc_of_pairs(*pairs_in_order(score[above], weights[0], score[below], weights[1]))


def pairs_in_order(above: Any, above_weight: Any, below: Any, below_weight: Any) -> tuple[float, float, float]:
    """What scores `above [n]` of rows of 1 and `below [m]` of rows of 0 weigh, and twice the pairs of both that stand in the right order.

    A pair weighs the product of its rows' weights, where there are some; of a tie half of it counts.
    """
    if above_weight is None:
        below = below if np.all(below[:-1] <= below[1:]) else np.sort(below)  # a sort of what is in order takes as long
        right = np.searchsorted(below, above, "left").sum() + np.searchsorted(below, above, "right").sum()
        return len(above), len(below), int(right)
    order = np.argsort(below)
    below, summed = below[order], np.append(0.0, np.cumsum(below_weight[order]))
    lower = summed[np.searchsorted(below, above, "left")] + summed[np.searchsorted(below, above, "right")]
    return above_weight.sum(), summed[-1], (above_weight * lower).sum()


def auc_of_pairs(above: float, below: float, right: float) -> float:
    """The share of pairs in the right order, from what rows of 1 and of 0 weigh, and twice those pairs; NaN where there are none."""
    return float(right / (2 * (above * below))) if above * below else float("nan")


def log_loss(truth: Any, probability: Any, weight: Any = None) -> float:
    """Mean negative log likelihood of classes `truth [n]` under `probability float[n, classes]`, clipped at float32's epsilon.

    Of two classes, 0 and 1, `probability [n]` may be that of 1 alone.
    """
    if probability.ndim == 1:
        chosen = np.where(truth == 1, probability, 1 - probability).astype(np.float64)
    else:
        chosen = probability[np.arange(len(truth)), truth].astype(np.float64)
    np.clip(chosen, np.finfo(np.float32).eps, 1, out=chosen)
    return -_mean(np.log(chosen, out=chosen), weight)


def accuracy(truth: Any, predicted: Any, weight: Any = None) -> float:
    """Share of equal classes."""
    return _mean(truth == predicted, weight)


def rmse(truth: Any, predicted: Any, weight: Any = None) -> float:
    """Root of the mean squared error, in units of the target."""
    return float(np.sqrt(_mean((truth - predicted) ** 2, weight)))


def r2(truth: Any, predicted: Any, weight: Any = None) -> float:
    """Share of the variance explained; NaN where the truth does not vary."""
    centred, missed = (truth - _mean(truth, weight)) ** 2, (truth - predicted) ** 2
    each = np.ones(1) if weight is None else weight
    total = float((each * centred).sum())
    return float(1 - (each * missed).sum() / total) if total > 0 else float("nan")


def pinball_loss(truth: Any, predicted: Any, quantile: float, weight: Any = None) -> float:
    """Mean loss of a quantile's prediction, in units of the target: what its true value makes least (Koenker & Bassett 1978)."""
    beyond = truth - predicted
    return _mean(np.where(beyond >= 0, quantile * beyond, (quantile - 1) * beyond), weight)


def coverage(truth: Any, predicted: Any, weight: Any = None) -> float:
    """Share of rows that are at or below what is predicted: of a quantile's prediction about the quantile."""
    return _mean(truth <= predicted, weight)


def ndcg(relevance: Any, score: Any, group: Any, at: int | None = None) -> float:
    """Normalized discounted cumulative gain of the first `at` rows of each group by score, mean over groups that have a relevant row.

    A row of `relevance [n]` gains 2^relevance - 1 over log2(1 + place) (Burges et al. 2005); rows of equal scores share their places.
    `group int[n]` from 0. NaN where no group has a relevant row.
    """
    gain = np.exp2(np.asarray(relevance, np.float64)) - 1
    found, best = _discounted(gain, np.asarray(score), group, at), _discounted(gain, gain, group, at)
    return float((found[best > 0] / best[best > 0]).mean()) if (best > 0).any() else float("nan")


def _discounted(gain: Any, score: Any, group: Any, at: int | None) -> Any:
    """The cumulative gain of every group with its rows ordered by score."""
    order = np.lexsort((-score, group))
    groups, scores = group[order], score[order]
    starts = np.append(True, groups[1:] != groups[:-1])
    rows = np.arange(len(order))
    place = rows - np.maximum.accumulate(np.where(starts, rows, 0)) + 1
    discount = np.where(place <= (at or len(order)), 1 / np.log2(1 + place), 0.0)
    tie = np.cumsum(starts | np.append(True, scores[1:] != scores[:-1])) - 1
    shared = (np.bincount(tie, gain[order]) / np.bincount(tie))[tie]
    return np.bincount(groups, shared * discount)


def _mean(values: Any, weight: Any) -> float:
    return float(np.mean(values)) if weight is None else float(np.average(values, weights=weight))
