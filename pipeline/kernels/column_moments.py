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
    """`int64[p]`: values that are not missing; `float64[p]`, what they weigh, where they have weights."""
    mean: Array
    """`float64[p]`: 0 where all are missing."""
    squares: Array
    """`float64[p]`: sum of squared differences from the mean, each times its weight."""
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
        share = other.known / np.where(known > 0, known, 1)
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * self.known * share
        least, greatest = np.minimum(self.least, other.least), np.maximum(self.greatest, other.greatest)
        return Moments(known, self.mean + apart * share, squares, least, greatest)


def column_moments(values: Array, weights: Array | None = None) -> Moments:
    """Moments of `values [n, p]`, NaN where missing; a row of weight 2 counts as two (`weights float64[n]`), one of 0 not at all."""
    rows = max(1, AT_A_TIME // max(1, values.shape[1]))
    pieces = (slice(start, start + rows) for start in range(0, len(values), rows))
    blocks = (_moments(values[at], None if weights is None else weights[at]) for at in pieces)
    return reduce(Moments.plus, blocks, Moments.nothing(values.shape[1]))


def _moments(values: Any, weights: Any = None) -> Moments:
    xp = array_module(values)
    gap = xp.isnan(values)
    full = weights is None and xp is np and not gap.any()  # nothing is taken out or weighed: the same bits by half the passes
    gap = gap if weights is None else gap | (weights == 0)[:, None]
    counts = ~gap if weights is None else xp.where(gap, 0.0, weights[:, None])

    def total(of: Any) -> Any:
        """Of each column, of what is there, weighed."""
        return of.sum(axis=0) if full else (xp.where(gap, 0.0, of) * counts).sum(axis=0)

    known = counts.sum(axis=0)
    some = xp.where(known > 0, known, 1)
    mean = total(values) / some
    apart = values - mean
    shift = total(apart) / some  # what rounding left of a mean far from 0
    squares = total(apart**2) - known * shift**2
    known = known.astype(xp.int64) if weights is None else known
    least, greatest = (values if full else xp.where(gap, end, values) for end in (xp.inf, -xp.inf))
    return Moments(*map(to_host, (known, mean + shift, squares, least.min(axis=0), greatest.max(axis=0))))
