"""Rows by split, train, validation, test: their order, their colours, and which of them a model is judged by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

SPLIT_STYLES = {"train": "s6", "validation": "s3", "test": "s0"}


def by_split(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Rows by split: train, validation, test, then others by name."""
    order = {name: number for number, name in enumerate(SPLIT_STYLES)}
    names = sorted(frame["split"].unique().to_list(), key=lambda name: (order.get(name, len(order)), name))
    return {name: frame.filter(pl.col("split") == name) for name in names}


def judged_split(splits: Mapping[str, pl.DataFrame]) -> str:
    """The split that a model is judged by: test where there is one, else the last."""
    return "test" if "test" in splits else next(reversed([*splits]), "")


def split_style(split: str) -> str:
    """The style that a split is drawn in."""
    return SPLIT_STYLES.get(split, "s4")


def auc_interval(area: float, cases: int, rows: int) -> tuple[float, float]:
    """A 95 % interval of an AUC by its standard error of Hanley & McNeil (1982), Radiology 143:29-36."""
    first, second = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    controls = rows - cases
    error = np.sqrt((area * (1 - area) + (cases - 1) * first + (controls - 1) * second) / (cases * controls))
    return max(area - 1.96 * float(error), 0.0), min(area + 1.96 * float(error), 1.0)
