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
    def learned(features: Array, numbers: Sequence[int], codes: Sequence[int]) -> Inputs:
        """Of the features to learn from, float32 [rows, columns], NaN where missing.

        The scale is the standard deviation of the values that are there, by n; 1 where they do not vary.
        """
        mean, scale = np.zeros(len(numbers)), np.ones(len(numbers))
        for place, column in enumerate(numbers):
            values = features[:, column]
            values = values[~np.isnan(values)].astype(np.float64)
            if len(values):
                mean[place], scale[place] = values.mean(), values.std() or 1.0
        return Inputs(tuple(numbers), tuple(codes), mean, scale)

    def taken(self, features: Array) -> tuple[Array, Array]:
        """Numbers float32 [rows, numbers], 0 (the mean) where missing, and codes int32 [rows, codes], each one more, 0 where missing.

        `features` are float32 [rows, columns], NaN where missing.
        """
        numbers = np.nan_to_num((features[:, self.numbers] - self.mean) / self.scale, copy=False, posinf=np.inf, neginf=-np.inf)
        codes = np.nan_to_num(features[:, self.codes] + 1)
        return numbers.astype(np.float32), codes.astype(np.int32)
