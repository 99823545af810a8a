"""What a linear model knows of its rows before it is fitted: sums over the parts, from which means, scales and categories come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.kernels.column_moments import Moments, column_moments
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._predictor import check_finite
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import SPLITS, Labels
from pipeline.stages.models._weights import check_weights, no_weight, row_weights
from pipeline.tables.part import Part


@dataclass(frozen=True)
class Summary:
    """Of all rows, or those of some parts.

    `moments` are of the features of training rows with a target, `target` of that; `trained` and `seen` count codes by feature, of those
    rows and of all; `classes` counts them by class. By its own weight a row of 2 counts as two in the first
    three, one of 0 in none of them.
    `targets` has what can be wrong with a target: split, target.
    """

    moments: Moments
    target: Moments
    trained: Mapping[str, Mapping[int, float]]
    seen: Mapping[str, Counter[int]]
    classes: Counter[int]
    targets: pl.DataFrame
    counts: Counter[str] = field(default_factory=Counter)

    def plus(self, other: Summary) -> Summary:
        """Of both one's rows."""
        return Summary(
            self.moments.plus(other.moments),
            self.target.plus(other.target),
            {name: _sum(counts, other.trained[name]) for name, counts in self.trained.items()},
            {name: counts + other.seen[name] for name, counts in self.seen.items()},
            self.classes + other.classes,
            pl.concat([self.targets, other.targets]).unique(maintain_order=True),
            self.counts + other.counts,
        )

    @property
    def rows(self) -> int:
        """Training rows with a target, those of weight 0 left out."""
        return self.counts["learned"]

    @property
    def total(self) -> float:
        """What they weigh together; as many as they are where there are no weights."""
        return float(self.target.known[0])


def summarized(part: Part, learning: Learning[Any]) -> Summary:
    """Of one part. Raises DataError for a feature with infinite values, a code below 0, or a weight that is none."""
    stage = learning.stage
    check_finite(learning.columns, part.frame, stage.precision)
    labels, features = Labels.of(stage, part.frame), learning.matrix(part)
    check_weights(stage, part.frame, labels)
    train, watched = (chosen_rows(stage, part.frame, labels, split) for split in ("train", "validation"))
    weights = row_weights(stage, part.frame)
    own = None if weights is None else weights[train]
    numbers = [at for at in range(features.shape[1]) if at >= len(learning.columns) or learning.columns[at] not in stage.categorical]
    counts = Counter({f"rows_{name}": int((labels.splits == code).sum()) for code, name in enumerate(SPLITS)})
    counts |= {"rows": part.frame.height, "learned": int(train.sum()), "watched": int(watched.sum())}
    counts["missing_values"] = int(np.isnan(features).sum(axis=0)[numbers].sum())
    known = labels.values[train]
    classes = Counter(labels.values[labels.of_split("train")].astype(int).tolist() if is_class(stage) else [])
    return Summary(
        column_moments(features[train], own),
        column_moments(np.where(np.isinf(known), np.nan, known)[:, None], own),  # an infinite one is refused by its text
        {name: _codes(part.frame[name].filter(pl.Series(train, dtype=pl.Boolean)), own) for name in stage.categorical},
        {name: _codes(part.frame[name]) for name in stage.categorical},
        classes,
        _targets(stage, part.frame),
        counts,
    )


def chosen_rows(stage: Supervised, rows: pl.DataFrame, labels: Labels, split: str) -> np.ndarray[Any, Any]:
    """Which rows of a split have a label, and weigh something."""
    weights, chosen = row_weights(stage, rows), labels.of_split(split)
    return chosen if weights is None else chosen & (weights > 0)


def is_class(stage: Supervised) -> bool:
    """Whether a stage's target is a class."""
    return stage.objective != "regression"


def added(summaries: Sequence[Summary]) -> Summary:
    """Of all their rows."""
    return reduce(Summary.plus, summaries)


def check(summary: Summary, stage: Supervised) -> None:
    """Raise DataError where the target cannot be learned."""
    rows = summary.targets
    Labels.of(stage, rows).check(stage, rows[stage.target], validation=bool(stage.early_stopping_rounds))
    for split, used in (("train", "learned"), ("validation", "watched")):
        if not summary.counts[used] and (split == "train" or stage.early_stopping_rounds):
            raise no_weight(stage, split)


def _sum(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    """What codes weigh in both."""
    return {code: one.get(code, 0) + other.get(code, 0) for code in {**one, **other}}


def _targets(stage: Supervised, frame: pl.DataFrame) -> pl.DataFrame:
    """Split and target: every class, or the least and the greatest number of a split."""
    columns = [name for name in (stage.split, stage.target) if name]
    rows = frame.select(columns)
    if is_class(stage) or not rows.height:
        return rows.unique(maintain_order=True)
    by = rows.group_by(stage.split, maintain_order=True) if stage.split else rows.with_columns(_all=0).group_by("_all")
    ends = [getattr(pl.col(stage.target), end)() for end in ("min", "max")]
    return pl.concat([by.agg(end).select(columns) for end in ends]).unique(maintain_order=True)


def _codes(codes: pl.Series, weights: Any = None) -> Counter[int]:
    """Rows of every code, or what they weigh. Raises DataError for one below 0."""
    rows = pl.DataFrame({"code": codes.cast(pl.Int64), "weight": 1 if weights is None else weights})
    counted = rows.drop_nulls("code").group_by("code", maintain_order=True).agg(pl.col("weight").sum())
    found = Counter(dict(counted.iter_rows()))
    if found and min(found) < 0:
        raise DataError(f"{codes.name!r} has the code {min(found)}, and codes begin with 0. Make it null, or encode it by categorify.")
    return found
