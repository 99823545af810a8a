"""How well predictions fit that no task has in memory together: means part by part, and pairs by the ranges that their scores lie in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.kernels.metrics import auc_of_pairs, pairs_in_order, rmse
from pipeline.stages.models._measures import Metrics, class_means, finite, members
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import SPLITS, Labels

EACH = 1009  # one score in so many says where ranges end
Scored = tuple[Labels, Any, Any]
"""Of a part its labels, predictions [rows] or [rows, classes], and weights [rows] or None."""


def measured_on_disk(stage: Supervised, parts: Callable[[], Iterator[Scored]], most: int) -> Metrics:
    """As `measured`: `parts` reads them one by one, from the first one each time, and so many rows' scores may be in memory."""
    means, scores, rows = defaultdict[str, list[dict[str, float]]](list), list[Any](), 0
    for labels, predicted, weights in parts():
        for split, of in members(labels, weights):
            means[split].append(_means(stage, labels.values[of], predicted[of], None if weights is None else weights[of]))
        if stage.objective == "binary":
            scores.append(predicted[::EACH].copy())
            rows += len(predicted)
    found = {split: _joined(stage, means[split]) for split in SPLITS if split in means}
    if stage.objective == "binary":
        ends = np.quantile(np.concatenate(scores), np.linspace(0, 1, -(-rows // most) + 1)[1:-1], method="lower")
        areas = _areas(parts, [-np.inf, *np.unique(ends), np.inf])
        found = {split: {"auc": areas[split], **values} for split, values in found.items()}
    return finite(found)


def _means(stage: Supervised, truth: Any, predicted: Any, weight: Any) -> dict[str, float]:
    """Of some rows what they weigh, and means; of a regression the mean of the target, too, and its mean square about that."""
    rows = {"rows": float(len(truth)) if weight is None else float(weight.sum())}
    if stage.objective != "regression":
        return {**rows, **class_means(stage, truth, predicted, weight)}
    mean = float(np.average(truth, weights=weight))
    varies = float(np.average((truth - mean) ** 2, weights=weight))
    return {**rows, "mean": mean, "varies": varies, "missed": rmse(truth, predicted, weight) ** 2}


def _joined(stage: Supervised, means: list[dict[str, float]]) -> dict[str, float]:
    """The metrics of all of these rows, but the area under the curve."""
    rows = np.array([one["rows"] for one in means])
    found = {name: float(np.average([one[name] for one in means], weights=rows)) for name in means[0] if name != "rows"}
    if stage.objective != "regression":
        return found
    apart = float(np.average((np.array([one["mean"] for one in means]) - found["mean"]) ** 2, weights=rows))
    varies = found["varies"] + apart
    return {"rmse": float(np.sqrt(found["missed"])), "r2": 1 - found["missed"] / varies if varies > 0 else float("nan")}


def _areas(parts: Callable[[], Iterator[Scored]], ends: list[float]) -> dict[str, float]:
    """Of each split the area under its ROC curve: a range of scores is in memory at a time."""
    total = {split: np.zeros(3) for split in SPLITS}  # what those of 1 weigh, those of 0, and twice the pairs in the right order
    for low, high in pairwise(ends):
        for split, (above, below) in _ranges(parts, low, high).items():
            one, zero, right = pairs_in_order(*above, *below)
            total[split] += one, zero, right + 2 * one * total[split][1]
    return {split: auc_of_pairs(*sums) for split, sums in total.items()}


def _ranges(parts: Callable[[], Iterator[Scored]], low: float, high: float) -> dict[str, list[tuple[Any, Any]]]:
    """Of each split the scores within a range (above `low`, up to `high`) of rows of 1 and of rows of 0, with their weights or None."""
    found = defaultdict[str, list[list[Any]]](lambda: [[], [], [], []])
    for labels, predicted, weights in parts():
        within = (predicted > low) & (predicted <= high)
        for split, of in members(labels, weights):
            for place, label in enumerate((1, 0)):
                chosen = of & within & (labels.values == label)
                found[split][place].append(predicted[chosen])
                found[split][2 + place].append(None if weights is None else weights[chosen])
    return {split: [(np.concatenate(given[at]), _weights(given[2 + at])) for at in (0, 1)] for split, given in found.items()}


def _weights(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)
