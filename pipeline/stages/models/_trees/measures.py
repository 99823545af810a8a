"""How well boosted trees predict, by split: the metrics of all models, and those of quantiles and of rankings."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.metrics import coverage, ndcg, pinball_loss
from pipeline.stages.models._measures import Metrics, measured
from pipeline.stages.models._training_rows import SPLITS, TrainingRows
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.groups import group_codes
from pipeline.stages.models._weights import row_weights

FIRST = 10  # rows of a group that ndcg@ looks at, where `metric` names no other number


def trees_measured(stage: BoostedTrees, rows: TrainingRows, predicted: Any) -> Metrics:
    """The metrics of every split that has rows with a label, of predictions [rows] or [rows, outputs]; weighted where rows are."""
    weights = row_weights(stage, rows.part.frame)
    if stage.objective not in ("quantile", "ranking"):
        return measured(stage, rows.labels, predicted, weights)
    codes, found = group_codes(stage, rows.part.frame), {}
    for split in SPLITS:
        of = rows.labels.of_split(split) & (True if weights is None else weights > 0)
        if of.any():
            truth, score = rows.labels.values[of], predicted[of]
            if stage.group:
                figures = _ranked(stage, truth, score, codes[of])
            else:
                figures = _quantiles(stage, truth, score.reshape(len(truth), -1), None if weights is None else weights[of])
            found[split] = {name: value if np.isfinite(value) else None for name, value in figures.items()}
    return found


def _quantiles(stage: BoostedTrees, truth: Any, score: Any, weight: Any) -> dict[str, float]:
    """The mean pinball loss, and the loss and the share of rows at or below of every quantile."""
    losses = {f"pinball_loss_{q:g}": pinball_loss(truth, score[:, at], q, weight) for at, q in enumerate(stage.quantiles)}
    shares = {f"coverage_{q:g}": coverage(truth, score[:, at], weight) for at, q in enumerate(stage.quantiles)}
    return {"pinball_loss": float(np.mean([*losses.values()])), **losses, **shares}


def _ranked(stage: BoostedTrees, truth: Any, score: Any, codes: Any) -> dict[str, float]:
    """The gain of whole groups, and of their first rows."""
    number = (stage.metric or "").partition("@")[2]
    first = int(number) if number.isdecimal() else FIRST
    return {"ndcg": ndcg(truth, score, codes), f"ndcg@{first}": ndcg(truth, score, codes, first)}
