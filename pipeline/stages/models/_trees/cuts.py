"""Where features are cut into bins: a task has some features of all rows, and cuts them as one task that has them all would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.backend.arrays import to_device
from pipeline.backend.boosting import import_xgboost
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._trees.matrices import data_iter
from pipeline.stages.models._trees.ordering import Ordering

Array = np.ndarray[Any, Any]


def cuts_of(learning: Learning[BoostedTrees], types: Sequence[str], order: Ordering, pieces: Sequence[Array]) -> list[Array]:
    """Of every feature the values that XGBoost bins to the same cuts, float32.

    `pieces` are these features of the training rows of every part that has some, [rows, features]. XGBoost's own sketch sees them in the
    order, in the batches and with the weights of one task, and looks at each feature for itself.
    """
    whole = np.empty((order.ends[-1], len(types)), np.float32)
    for piece, places in zip(pieces, filter(len, order.places), strict=True):
        whole[places] = piece
    xgb = import_xgboost(lean=learning.lean)

    def batches() -> Iterator[tuple[Any, Any]]:
        """The rows, batch by batch."""
        for first, last in pairwise([0, *order.ends.tolist()]):
            yield to_device(whole[first:last], learning.backend), slice(first, last)

    def given(at: slice) -> dict[str, Any]:
        """What XGBoost is told of some rows."""
        return {"weight": None if order.weights is None else order.weights[at], "feature_types": list(types)}

    options = {"max_bin": learning.stage.max_bin, "enable_categorical": True, "nthread": learning.threads}
    starts, cuts = xgb.QuantileDMatrix(data_iter(xgb, batches, given), **options).get_quantile_cut()
    return [_values(whole[:, at], cuts[first:last]) for at, (first, last) in enumerate(pairwise(starts.astype(int).tolist()))]


def _values(column: Array, cuts: Array) -> Array:
    """The least value, the cuts between the bins, and the greatest value, beyond which XGBoost puts the last cut."""
    there = column[~np.isnan(column)]
    if not len(there):
        return np.empty(0, np.float32)
    low, high = there.min(), there.max()
    return np.unique(np.concatenate([[low], cuts[(cuts > low) & (cuts <= high)], [high]]).astype(np.float32))


def reference(learning: Learning[BoostedTrees], names: Sequence[str], values: Sequence[Array]) -> Any:
    """A matrix of these values alone: another one that refers to it has its cuts."""
    xgb, types = import_xgboost(lean=learning.lean), learning.stage.feature_types(list(names))
    table = np.full((max(1, *map(len, values)), len(values)), np.nan, np.float32)
    for at, of in enumerate(values):
        table[: len(of), at] = of
    options = {"max_bin": learning.stage.max_bin, "enable_categorical": True, "nthread": learning.threads}
    return xgb.QuantileDMatrix(to_device(table, learning.backend), feature_names=list(names), feature_types=types, **options)
