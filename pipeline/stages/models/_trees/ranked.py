"""Metrics that order all rows (auc, aucpr) over several tasks: XGBoost takes the mean of what they are of each task's rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.backend.boosting import import_xgboost

ORDERING = ("auc", "aucpr")


def eval_set(booster: Any, watched: Sequence[tuple[Any, str]], at: int) -> str:
    """What XGBoost says of a round's metrics."""
    return str(booster.eval_set(watched, at)) if watched else ""


class Ranked:
    """The same of all tasks' rows, whose margins are brought together; every task computes the metric for itself."""

    def __init__(self, native: dict[str, Any], rank: int, count: int) -> None:
        """`native` are XGBoost's parameters, for this task's `rank` of `count`."""
        self._xgb, self._rank, self._count = import_xgboost(), rank, count
        told = ("objective", "num_class", "eval_metric", "nthread", "device")
        self._native = {name: native[name] for name in told if name in native} | {"base_score": 0.5}
        self._known: dict[str, tuple[Any, Any]] = {}

    def __call__(self, booster: Any, watched: Sequence[tuple[Any, str]], at: int) -> str:
        """What XGBoost says of a round's metrics, of all rows."""
        return " ".join([f"[{at}]", *(self._of(booster, matrix, name, at) for matrix, name in watched)])

    def _of(self, booster: Any, matrix: Any, name: str, at: int) -> str:
        """The metric of one split, after its name."""
        if name not in self._known:
            weights = matrix.get_weight()
            weights = weights if len(weights) else np.ones(matrix.num_row(), np.float32)
            self._known[name] = (self._together(matrix.get_label()), self._together(weights))
        labels, weights = self._known[name]
        margins = self._together(booster.predict(matrix, output_margin=True))
        whole = self._xgb.DMatrix(np.zeros((len(labels), 1), np.float32), labels, weight=weights, base_margin=margins)
        said = str(self._xgb.Booster(self._native, [whole]).eval_set([(whole, name)], at))
        return said.split()[-1]

    def _together(self, own: Any) -> Any:
        """The values of all tasks' rows, one task's after another's."""
        collective = self._xgb.collective
        counts = np.zeros(self._count, np.int64)
        counts[self._rank] = len(own)
        ends = np.cumsum(collective.allreduce(counts, collective.Op.SUM))
        whole = np.zeros((int(ends[-1]), *own.shape[1:]), np.float32)
        whole[int(ends[self._rank]) - len(own) : int(ends[self._rank])] = own
        return collective.allreduce(whole, collective.Op.SUM).reshape(whole.shape)
