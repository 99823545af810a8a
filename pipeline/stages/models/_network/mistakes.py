"""The images that a network of classes is most sure about and wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.stages.models._learning import Learning
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._training_rows import SPLITS, TrainingRows
from pipeline.tables.part import Part

MOST = 24
MISTAKES = {
    "row": pl.String(), "split": pl.String(), "truth": pl.String(), "predicted": pl.String(), "probability": pl.Float64(),
    "height": pl.Int64(), "width": pl.Int64(), "channels": pl.Int64(), "pixels": pl.List(pl.Float32()),
}  # fmt: skip


def mistakes(learning: Learning[DeepLearning], rows: TrainingRows, predicted: Any) -> Part:
    """Of test and validation rows (of training rows if there are no others) those whose wrong class is the most probable, in this order."""
    stage, labels, frame = learning.stage, rows.labels, rows.part.frame
    image, names = stage.image, stage.class_names or ["0", "1"]
    assert image is not None
    chances = predicted if predicted.ndim == 2 else np.column_stack([1 - predicted, predicted])
    guesses = chances.argmax(axis=1)
    judged = labels.of_split("test") | labels.of_split("validation")
    known = judged if judged.any() else labels.of_split("train")
    wrong = np.flatnonzero(known & (guesses != labels.values))
    sure = chances[wrong, guesses[wrong]].astype(np.float64)
    wrong = wrong[np.argsort(-sure, kind="stable")[:MOST]]
    pixels = image.numbers(frame[image.column][wrong], np.float32)
    columns = {
        "row": frame[stage.key][wrong].cast(pl.String),
        "split": [SPLITS[code] for code in labels.splits[wrong]],
        "truth": [names[int(value)] for value in labels.values[wrong]],
        "predicted": [names[guess] for guess in guesses[wrong]],
        "probability": chances[wrong, guesses[wrong]].astype(np.float64),
        "height": [image.height] * len(wrong),
        "width": [image.width] * len(wrong),
        "channels": [image.channels] * len(wrong),
        "pixels": [pl.Series(one).fill_nan(None) for one in pixels],
    }
    return Part(pl.DataFrame(columns, schema=MISTAKES))
