"""What a network takes of a matrix of features: standardized numbers, and codes of categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


def mean_and_deviation(values: Array, weights: Array | None) -> tuple[float, float]:
    """Mean and standard deviation (by n) of `values [n]`, each as often as it weighs."""
    if weights is None:
        return float(values.mean()), float(values.std())
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))


@dataclass(frozen=True)
class Inputs:
    """Which columns of a matrix are numbers and which codes, and how numbers are standardized: `mean` and `scale`, float64 [numbers]."""

    numbers: tuple[int, ...]
    codes: tuple[int, ...]
    mean: Array
    scale: Array

    @staticmethod
    def learned(
        features: Array, numbers: Sequence[int], codes: Sequence[int], alike: Sequence[Sequence[int]] = (), weights: Array | None = None
    ) -> Inputs:
        """Of the features to learn from, float32 [rows, columns], NaN where missing; a row of weight 2 (`weights [rows]`) counts as two.

        The scale is the standard deviation of the values that are there, by n; 1 where they do not vary. Numbers that are `alike`, by their
        places among the numbers (the pixels of a channel), share mean and scale.
        """
        mean, scale = np.zeros(len(numbers)), np.ones(len(numbers))
        shared = {place for places in alike for place in places}
        for places in [*map(list, alike), *([place] for place in range(len(numbers)) if place not in shared)]:
            values = features[:, [numbers[place] for place in places]]
            known = ~np.isnan(values)
            if known.any():
                own = None if weights is None else np.broadcast_to(weights[:, None], values.shape)[known]
                middle, deviation = mean_and_deviation(values[known].astype(np.float64), own)
                mean[places], scale[places] = middle, deviation or 1.0
        return Inputs(tuple(numbers), tuple(codes), mean, scale)

    def taken(self, features: Array) -> tuple[Array, Array]:
        """Numbers float32 [rows, numbers], 0 (the mean) where missing, and codes int32 [rows, codes], each one more, 0 where missing.

        `features` are float32 [rows, columns], NaN where missing.
        """
        numbers = np.nan_to_num((features[:, self.numbers] - self.mean) / self.scale, copy=False, posinf=np.inf, neginf=-np.inf)
        codes = np.nan_to_num(features[:, self.codes] + 1)
        return numbers.astype(np.float32), codes.astype(np.int32)
