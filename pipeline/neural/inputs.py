"""What a network takes of a matrix of features: standardized numbers, and codes of categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Inputs:
    """Which columns of a matrix are numbers and which codes, and how numbers are standardized: `mean` and `scale`, float64 [numbers]."""

    numbers: tuple[int, ...]
    codes: tuple[int, ...]
    mean: Array
    scale: Array

    @staticmethod
    def learned(features: Array, numbers: Sequence[int], codes: Sequence[int], alike: Sequence[Sequence[int]] = ()) -> Inputs:
        """Of the features to learn from, float32 [rows, columns], NaN where missing.

        The scale is the standard deviation of the values that are there, by n; 1 where they do not vary. Numbers that are `alike`, by their
        places among the numbers (the pixels of a channel), share mean and scale.
        """
        mean, scale = np.zeros(len(numbers)), np.ones(len(numbers))
        shared = {place for places in alike for place in places}
        for places in [*map(list, alike), *([place] for place in range(len(numbers)) if place not in shared)]:
            values = features[:, [numbers[place] for place in places]]
            values = values[~np.isnan(values)].astype(np.float64)
            if len(values):
                mean[places], scale[places] = values.mean(), values.std() or 1.0
        return Inputs(tuple(numbers), tuple(codes), mean, scale)

    def taken(self, features: Array) -> tuple[Array, Array]:
        """Numbers float32 [rows, numbers], 0 (the mean) where missing, and codes int32 [rows, codes], each one more, 0 where missing.

        `features` are float32 [rows, columns], NaN where missing.
        """
        numbers = np.nan_to_num((features[:, self.numbers] - self.mean) / self.scale, copy=False, posinf=np.inf, neginf=-np.inf)
        codes = np.nan_to_num(features[:, self.codes] + 1)
        return numbers.astype(np.float32), codes.astype(np.int32)
