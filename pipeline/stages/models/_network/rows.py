"""The rows of a table as a network takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages._keys import text_hashes
from pipeline.stages.models._learning import Learning
from pipeline.stages.models._measures import class_weights
from pipeline.stages.models._network.deep_learning import DeepLearning
from pipeline.stages.models._network.layout import Layout
from pipeline.stages.models._training_rows import Labels, TrainingRows
from pipeline.stages.models._weights import row_weights, training_weights

if TYPE_CHECKING:
    from pipeline.neural.inputs import Inputs

Array = Any
MOST_CATEGORIES = 1_000_000


@dataclass(frozen=True)
class Material:
    """All rows: `layout` and `inputs` say how features became `numbers` and `codes`.

    `labels` are of the rows that count: those of weight 0 have none. `weights float64[rows]` are the rows' own, None where all weigh the
    same, `classes` those of a row by its class. `target` are the mean and scale of a regression's, 0 and 1 else.
    `names uint64[rows]`: hashes of the keys, where images are augmented.
    """

    layout: Layout
    inputs: Inputs
    numbers: Array
    codes: Array
    labels: Labels
    weights: Array | None
    classes: Callable[[Array], Array | None]
    target: tuple[float, float]
    missing: int
    names: Array | None = None

    @staticmethod
    def of(learning: Learning[DeepLearning], rows: TrainingRows, names: list[str]) -> Material:
        """Of the rows in the order of their key. Raises DataError for codes that cannot be embedded."""
        from pipeline.neural.inputs import Inputs, mean_and_deviation

        features, stage = np.concatenate([learning.matrix(piece) for piece in rows.pieces()]), learning.stage
        layout = Layout.of(names, stage.categorical, learning.unfolded)
        for name, column in zip(stage.categorical, layout.codes, strict=False):
            _check_codes(name, features[:, column])
        weights = row_weights(stage, rows.part.frame)
        labels = rows.labels if weights is None else Labels(np.where(weights > 0, rows.labels.values, np.nan), rows.labels.splits)
        train = labels.of_split("train")
        channels = (
            [range(channel, stage.image.size, stage.image.channels) for channel in range(stage.image.channels)] if stage.image else []
        )
        own = None if weights is None else weights[train]
        inputs = Inputs.learned(features[train], layout.numbers, layout.codes, channels, own)
        missing = int(np.isnan(features[:, inputs.numbers]).sum())
        target = (0.0, 1.0)
        if stage.objective == "regression":
            target = mean_and_deviation(labels.values[train], own)
        weigh = class_weights(stage, rows.labels)
        called = text_hashes(rows.part.frame[stage.key].cast(pl.String)) if stage.augment else None
        return Material(layout, inputs, *inputs.taken(features), labels, weights, weigh, target, missing, called)

    def seen(self, columns: Sequence[int]) -> list[Array]:
        """Rows of each embedding that training rows have, of codes in so many columns each."""
        pieces = np.split(self.codes[self.labels.of_split("train")], np.cumsum(columns)[:-1], axis=1)
        return [np.unique(codes) for codes in pieces]

    def batches(self, stage: DeepLearning) -> dict[str, Array]:
        """The training rows: numbers, codes, standardized targets, what each weighs, and as how many rows it counts, in the mean one."""
        train = self.labels.of_split("train")
        values, (mean, scale) = self.labels.values[train], self.target
        counts = None if self.weights is None else self.weights[train] / self.weights[train].mean()
        weights = training_weights(self.classes, values, counts)
        return {
            "numbers": self.numbers[train],
            "codes": self.codes[train],
            "targets": ((values - mean) / scale).astype(np.float32),
            "weighs": np.ones(len(values), np.float32) if weights is None else weights.astype(np.float32),
            **({} if counts is None else {"counts": counts.astype(np.float32)}),
            **({} if self.names is None else {"names": self.names[train]}),
        }


def _check_codes(name: str, codes: Array) -> None:
    """Raise DataError for a code below 0 or beyond what an embedding has rows for."""
    odd = codes[(codes < 0) | (codes >= MOST_CATEGORIES)]
    if len(odd):
        text = f"{name!r} has the code {odd[0]:.0f}: a category's codes are 0 to {MOST_CATEGORIES - 1:,}. Make them by categorify."
        raise DataError(text)
