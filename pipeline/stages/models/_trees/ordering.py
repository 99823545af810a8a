"""What follows from all rows together, where no task sees all their features: their order, and where the trees begin."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.boosting import import_xgboost
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._measures import class_weights
from pipeline.stages.models._training_rows import Labels, TrainingRows, in_key_order
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.stages.models._weights import check_some_weight, check_weights, row_weights, training_weights
from pipeline.tables.part import Part, concat_parts

OF_THE_INTERCEPT = {"objective", "num_class", "quantile_alpha", "scale_pos_weight", "tree_method", "device", "seed", "nthread"}
"""XGBoost's parameters that the margin depends on from which the first tree starts."""


class Ordering(NamedTuple):
    """The training rows in the order in which one task takes them.

    `counts`: of every part, its rows that train and those that are watched. `places`: of every part's training rows, where each stands
    among all. `ends`: of the batches in which one task bins them. `weights`: what they weigh; None where all weigh the same. `weigh`:
    labels to weights of their classes. `intercept`: XGBoost's base_score.
    """

    counts: dict[str, list[int]]
    places: list[np.ndarray[Any, Any]]
    ends: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any] | None
    weigh: Callable[[Any], Any]
    intercept: str


def row_facts(learning: Learning[BoostedTrees], part: Part) -> Part:
    """All but the features of a part's rows. Raises DataError for a wrong weight."""
    stage = learning.stage
    seen = part.seen(list(dict.fromkeys([*stage.row_columns, *stage.aside_columns])))
    check_weights(stage, seen, Labels.of(stage, seen))
    return Part(seen)


def ordered(learning: Learning[BoostedTrees], native: dict[str, Any], parts: Sequence[Part]) -> Ordering:
    """The order of the rows of all parts. Raises DataError for a key that comes twice, and for targets that cannot be learned."""
    stage, sizes = learning.stage, [part.frame.height for part in parts]
    whole = concat_parts(parts)
    whole = in_key_order(stage, Part(whole.frame, {"stood": np.arange(whole.frame.height)}))
    rows = TrainingRows.of(stage, whole)
    rows.labels.check(stage, whole.frame[stage.target], validation=bool(stage.early_stopping_rounds))
    own = row_weights(stage, whole.frame)
    check_some_weight(stage, own, rows.labels)
    weigh, trains = class_weights(stage, rows.labels), rows.labels.of_split("train")
    values = rows.labels.values[trains]
    weights = training_weights(weigh, values, None if own is None else own[trains])
    place = np.full(whole.frame.height, -1)
    place[whole.arrays["stood"][trains]] = np.arange(len(values))
    by_part = np.split(place, np.cumsum(sizes)[:-1])
    return Ordering(
        {split: _counted(learning, parts, split) for split in ("train", "validation")},
        [of[of >= 0] for of in by_part],
        np.cumsum([len(batch) for batch, _ in TrainingRows(Part(pl.DataFrame(whole.frame[stage.key])), rows.labels).chosen("train")]),
        weights,
        weigh,
        intercept(learning, native, values, weights),
    )


def _counted(learning: Learning[BoostedTrees], parts: Sequence[Part], split: str) -> list[int]:
    return [int(Labels.of(learning.stage, part.frame).of_split(split).sum()) for part in parts]


def intercept(learning: Learning[BoostedTrees], native: dict[str, Any], labels: Any, weights: Any) -> str:
    """XGBoost's base_score of these labels, in their order: over several workers it would be a sum in another one, or a mean of theirs."""
    if "base_score" in native:
        return str(native["base_score"])
    xgb = import_xgboost(lean=learning.lean)
    about = {name: value for name, value in native.items() if name in OF_THE_INTERCEPT}
    matrix = xgb.QuantileDMatrix(np.zeros((len(labels), 1), np.float32), labels, weight=weights, nthread=learning.threads, max_bin=2)
    booster = xgb.Booster({**about, "max_bin": 2, "max_depth": 1}, [matrix])
    booster.update(matrix, 0)
    return str(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])
