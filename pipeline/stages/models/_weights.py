"""How much each row weighs: by its column of weights, and in training by its class too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import Labels

Weigh = Callable[[Any], Any]


def row_weights(stage: Supervised, rows: pl.DataFrame) -> Any:
    """The column of weights, float64 [rows], NaN where missing; None where there is none."""
    return rows[stage.weight].cast(pl.Float64).fill_null(float("nan")).to_numpy() if stage.weight else None


def training_weights(weigh: Weigh, labels: Any, weights: Any) -> Any:
    """What rows weigh in training, by their labels' classes (`weigh`) times their own weights; None where all weigh the same."""
    of_class = weigh(labels)
    if of_class is None or weights is None:
        return of_class if weights is None else weights
    return of_class * weights


def check_weights(stage: Supervised, rows: pl.DataFrame, labels: Labels) -> None:
    """Raise DataError for a row with a label whose weight is missing, infinite or below 0."""
    weights = row_weights(stage, rows)
    if weights is None:
        return
    wrong = ~np.isnan(labels.values) & ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        assert stage.weight is not None
        raise DataError(
            f"the weight {stage.weight!r} of the row with {stage.key} {rows[stage.key][at]!r} is {rows[stage.weight][at]}, and weights are "
            f"numbers of 0 or more ({int(wrong.sum()):,} rows are wrong). Filter such rows out, or fill them.",
            key="weight",
        )


def check_some_weight(stage: Supervised, weights: Any, labels: Labels) -> None:
    """Raise DataError where no row to learn from, or to stop early by, weighs anything."""
    for split in ("train", "validation") if stage.early_stopping_rounds else ("train",):
        if weights is not None and not (weights[labels.of_split(split)] > 0).any():
            raise no_weight(stage, split)


def no_weight(stage: Supervised, split: str) -> DataError:
    """The error of a split whose rows weigh nothing."""
    return DataError(f"every {split} row weighs 0 by {stage.weight!r}. Give some a weight.", key="weight")
