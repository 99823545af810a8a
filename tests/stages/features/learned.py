"""Rows that the tests of features share."""

from __future__ import annotations

import random

import numpy as np
import polars as pl

RANDOM = random.Random(12)
ROWS = 120
FRAME = pl.DataFrame(
    {
        "id": range(ROWS),
        "x": [RANDOM.choice([None, RANDOM.gauss(3, 2)]) for _ in range(ROWS)],
        "i": [RANDOM.choice([None, 1, 2, 30]) for _ in range(ROWS)],
        "city": [RANDOM.choice([None, "", "a", "b", "b", "b", "é"]) for _ in range(ROWS)],
        "flag": [RANDOM.choice([None, True, False]) for _ in range(ROWS)],
        "y": [RANDOM.choice([0, 1, 1]) for _ in range(ROWS)],
        "split": ["train"] * 80 + ["test"] * 40,
    }
)
TRAIN = "split = 'train'"
"""What the rows to learn from are."""


def numbers(frame: pl.DataFrame, *names: str) -> np.ndarray:
    """Columns as scikit-learn takes them."""
    return frame.select(pl.col(names).cast(pl.Float64)).fill_null(float("nan")).to_numpy()


def train() -> pl.DataFrame:
    """The rows to learn from."""
    return FRAME.filter(pl.col("split") == "train")
