"""Groups within which a ranking orders rows: rows of a group stand together in training, and in one split."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._training_rows import SPLITS, Labels
from pipeline.stages.models._trees.boosted_trees import BoostedTrees
from pipeline.tables.part import Part, take

MOST = 31  # a relevance above gains more than XGBoost's numbers hold


def by_group(stage: BoostedTrees, whole: Part) -> Part:
    """Rows that are in the order of the key by their group first; as they are where there are no groups."""
    if stage.group is None or whole.frame[stage.group].is_sorted():
        return whole
    order = whole.frame.select(pl.arg_sort_by(stage.group, maintain_order=True)).to_series()
    return Part(whole.frame[order], {array: take(values, order.to_numpy()) for array, values in whole.arrays.items()})


def group_codes(stage: BoostedTrees, rows: pl.DataFrame) -> Any:
    """The number of every row's group, int [rows], from 0; None where there are no groups."""
    return rows[stage.group].rank("dense").to_numpy().astype(np.int64) - 1 if stage.group else None


def group_sizes(codes: Any) -> Any:
    """How many rows each group has, of codes that stand together."""
    return np.diff(np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1], [True]])))


def check_groups(stage: BoostedTrees, rows: pl.DataFrame, labels: Labels) -> None:
    """Raise DataError for a row without a group, a group in two splits, and a relevance that XGBoost cannot take."""
    if stage.group is None:
        return
    if missing := rows[stage.group].null_count():
        key = rows.filter(pl.col(stage.group).is_null())[stage.key][0]
        raise DataError(f"the row with {stage.key} {key!r} has no {stage.group!r} ({missing:,} rows). Filter such rows out.", key="group")
    known = labels.values[~np.isnan(labels.values)]
    wrong = known[(known < 0) | (known > MOST) | (known != np.floor(known))]
    if len(wrong):
        text = f"{stage.target!r} has the value {wrong[0]:g}, and the relevance of a ranking is a whole number from 0 to {MOST}."
        raise DataError(f"{text} Round or cut it.", key="target")
    if stage.split:
        _check_splits(stage, rows)


def _check_splits(stage: BoostedTrees, rows: pl.DataFrame) -> None:
    """Raise DataError for a group with rows in two splits: what is learned of it would be judged by it."""
    assert stage.split
    assert stage.group
    splits = rows.filter(pl.col(stage.split).is_in(SPLITS)).group_by(stage.group).agg(pl.col(stage.split).unique().sort())
    divided = splits.filter(pl.col(stage.split).list.len() > 1).sort(stage.group)
    if divided.height:
        group, names = divided.row(0)
        raise DataError(
            f"the {stage.group!r} {group!r} has rows in {' and '.join(names)} ({divided.height:,} groups are divided). Keep a group in one "
            f"split: the stage split with key: {stage.group}",
            key="split",
        )
