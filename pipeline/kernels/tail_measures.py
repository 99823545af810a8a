"""Value at risk, expected shortfall and what each position adds to them, of the sums over all paths and the losses near the quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pipeline.errors import RunError
from pipeline.kernels.tail_risk import NEAR, Cuts, TailSums, coarse_losses, exact, first_paths, share_error

Array = Any
Z = 1.959963984540054
"""Standard errors of an interval that holds with a probability of 95 %."""


@dataclass(frozen=True)
class LevelRisk:
    """Of one level, in units: value at risk with the ends of its interval, expected shortfall and its standard error.

    `value_parts` and `shortfall_parts`, `float64[p]`, are what each position adds to them.
    """

    level: float
    value: int
    low: int
    high: int
    shortfall: float
    shortfall_error: float
    value_parts: Array
    shortfall_parts: Array


@dataclass(frozen=True)
class _Tail:
    """The losses of a level from the greatest on: `above` that are not kept, those just `high`, kept ones, those just `low`."""

    level: float
    paths: int
    above: int
    values: Array
    counts: Array

    @property
    def rank(self) -> int:
        """The value at risk's place, from 1: the least loss that the level's share of the paths do not exceed."""
        return self.paths - math.ceil(Fraction(str(self.level)) * self.paths) + 1

    def at(self, rank: int) -> int:
        """The loss of a rank from the top. Raises RunError where it was not kept."""
        place = int(np.searchsorted(self.above + np.cumsum(self.counts), max(1, min(rank, self.paths))))
        if rank <= self.above or place == len(self.values):
            first = first_paths(self.paths)
            raise RunError(f"the first {first:,} paths are unlike the others: the loss of rank {rank:,} was not kept. Give another seed.")
        return int(self.values[place])

    def around(self, ranks: float) -> tuple[int, int]:
        """The losses of so many ranks below the value at risk and above it."""
        apart = math.ceil(ranks)
        return self.at(min(self.paths, self.rank + apart)), self.at(max(1, self.rank - apart))


def level_risks(cuts: Cuts, sums: TailSums, losses_of: Callable[[Array], Array]) -> list[LevelRisk]:
    """The measures of each level; `losses_of` gives the positions' losses on some of the kept paths, summed: `float64[p]`.

    Value at risk is the least loss that the level's share of all paths do not exceed; the ends of its interval are losses by their ranks,
    for which no distribution is assumed. Expected shortfall is the mean of the (1 - level) N greatest losses, the last of which may count
    in part (Acerbi & Tasche 2002, J Bank Finance 26:1487-1503); its error is Manistre & Hancock's (2005, N Am Actuar J 9:129-156).

    A position adds to expected shortfall the mean of its own losses on these paths, to the value at risk that on the paths near it, scaled
    so that they sum to it (Euler's allocation; Tasche 1999, Risk contributions and performance measurement, TU Munich).
    """
    return [_level_risk(at, cuts, sums, losses_of) for at in range(len(cuts.levels))]


def _level_risk(at: int, cuts: Cuts, sums: TailSums, losses_of: Callable[[Array], Array]) -> LevelRisk:
    low, high, level = int(cuts.low[at]), int(cuts.high[at]), cuts.levels[at]
    mine = (sums.losses > low) & (sums.losses < high)
    kept, numbers = sums.losses[mine], sums.kept[mine]
    above, at_high, at_low = (int(count) for count in sums.counts[:, at])
    held = exact(sums.sums[:, :, at])  # [3, p]
    values = np.concatenate([[high], np.sort(kept)[::-1], [low]])
    counts = np.concatenate([[at_high], np.ones(len(kept), np.int64), [at_low]])
    tail = _Tail(level, sums.paths, above, values, counts)
    value = tail.at(tail.rank)

    def parts(first: int, last: int) -> tuple[int, Array]:
        """How many losses lie from `first` to `last`, and the positions' losses on these paths."""
        inside = (kept >= first) & (kept <= last)
        found = losses_of(numbers[inside])
        for edge, count, loss in ((high, at_high, held[1]), (low, at_low, held[2])):
            if count and first <= edge <= last:
                found = found + loss
        return int(counts[(values >= first) & (values <= last)].sum()), found

    worse, worse_parts = parts(value + 1, high)
    equal, equal_parts = parts(value, value)
    beyond = float((1 - Fraction(str(level))) * sums.paths)
    worse, worse_parts = worse + above, worse_parts + held[0]
    shortfall_parts = (worse_parts + equal_parts * ((beyond - worse) / equal)) / beyond
    shortfall = float(shortfall_parts.sum())
    near_low, near_high = tail.around(NEAR * share_error(level, first_paths(sums.paths)) * sums.paths)
    near, near_parts = parts(near_low, near_high)
    around = float(near_parts.sum()) / near
    spread = _tail_variance(at, cuts, sums, kept[kept > value], (worse, at_high if high > value else 0))
    error = math.sqrt((spread + level * (shortfall - value) ** 2) / beyond)
    bounds = tail.around(Z * share_error(level, sums.paths) * sums.paths)
    value_parts = near_parts / near * (value / around if around else 1.0)
    return LevelRisk(level, value, *bounds, shortfall, error, value_parts, shortfall_parts)


def _tail_variance(at: int, cuts: Cuts, sums: TailSums, kept: Array, counts: tuple[int, int]) -> float:
    """The variance of the losses beyond a value at risk: those not kept, of which so many are just the upper edge, and the kept ones."""
    worse, edge = counts
    if worse < 2:
        return 0.0
    first, second = exact(sums.tails[:, :, at])
    near = coarse_losses(kept, cuts.coarse).astype(np.float64)
    top = float(coarse_losses(cuts.high[at], cuts.coarse)) if edge else 0.0
    mean = (first + near.sum() + edge * top) / worse
    square = (second + (near * near).sum() + edge * top * top) / worse
    return float(max(square - mean * mean, 0.0) * 4.0**cuts.coarse)
