"""Means and squares of columns with gaps, part by part: Chan, Golub & LeVeque (1979), updating formulae and a pairwise algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotypes import Array

AT_A_TIME = 1 << 21  # numbers


@dataclass(frozen=True)
class Moments:
    """Of p columns, on the host."""

    known: Array
    """`int64[p]`: values that are not missing."""
    mean: Array
    """`float64[p]`: 0 where all are missing."""
    squares: Array
    """`float64[p]`: sum of squared differences from the mean."""
    least: Array
    """`float64[p]`: infinite where all are missing."""
    greatest: Array
    """`float64[p]`: minus infinity where all are missing."""

    @classmethod
    def nothing(cls, columns: int) -> Moments:
        """Of no rows."""
        zero, far = np.zeros(columns), np.full(columns, np.inf)
        return cls(np.zeros(columns, np.int64), zero, zero, far, -far)

    def plus(self, other: Moments) -> Moments:
        """Of both one's rows."""
        known = self.known + other.known
        share = other.known / np.maximum(known, 1)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * self.known * share
        least, greatest = np.minimum(self.least, other.least), np.maximum(self.greatest, other.greatest)
        return Moments(known, self.mean + apart * share, squares, least, greatest)


def column_moments(values: Array) -> Moments:
    """Moments of `values [n, p]`, NaN where missing."""
    rows = max(1, AT_A_TIME // max(1, values.shape[1]))
    blocks = (_moments(values[start : start + rows]) for start in range(0, len(values), rows))
    return reduce(Moments.plus, blocks, Moments.nothing(values.shape[1]))


def _moments(values: Any) -> Moments:
    xp = array_module(values)
    gap = xp.isnan(values)
    known = (~gap).sum(axis=0)
    mean = xp.where(gap, 0.0, values).sum(axis=0) / xp.maximum(known, 1)
    apart = xp.where(gap, 0.0, values - mean)
    shift = apart.sum(axis=0) / xp.maximum(known, 1)  # what rounding left of a mean far from 0
    squares = (apart**2).sum(axis=0) - known * shift**2
    least, greatest = xp.where(gap, xp.inf, values).min(axis=0), xp.where(gap, -xp.inf, values).max(axis=0)
    return Moments(*(to_host(array) for array in (known.astype(xp.int64), mean + shift, squares, least, greatest)))
