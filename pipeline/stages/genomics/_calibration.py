"""Null traits that ride along with a genome scan: how often each threshold is passed where there is nothing to find. Not a stage.

A null trait is a trait's residual, after covariates, permuted among the people who have it, and freed of the covariates again (Freedman &
Lane 1983): it keeps the trait's values, outliers and ties, and has no genotype behind it. Permutations are drawn by the job's seed and
the trait's name, so that they are the same for any parts and workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.kernels.design import Design
from pipeline.kernels.genotypes import MISSING, unpack
from pipeline.kernels.p_values import MEDIAN_CHI_SQUARE
from pipeline.kernels.predicted_scan import PredictedDesign

THRESHOLDS = (0.05, 0.01, 1e-3, 1e-4, 5e-8)
FREQUENCIES = (0.0, 0.001, 0.01, 0.05, 0.5)
"""Edges of the bins of the minor allele's frequency; a bin has its upper edge."""
TABLE = {
    "trait": pl.String(),
    "above_frequency": pl.Float64(),
    "to_frequency": pl.Float64(),
    "threshold": pl.Float64(),
    "tests": pl.Int64(),
    "passed": pl.Int64(),
    "type_1_error": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "lambda_null": pl.Float64(),
    "lambda": pl.Float64(),
}
_WIDTH, _BINS = 0.002, 4_000  # of t squared, up to 8: its median is about 0.455 where nothing is found


class Tally(NamedTuple):
    """What was counted of t traits by b bins of frequency; each trait stands before its m null traits."""

    passed: NDArray[np.int64]
    """`[t, b, 1 + m, thresholds]`: results at or below each threshold."""
    tests: NDArray[np.int64]
    """`[t, b, 1 + m]`: results."""
    squares: NDArray[np.int64]
    """`[t, b, 2, _BINS]`: of the trait and of all its null traits, results by the square of their statistic."""

    @classmethod
    def empty(cls, traits: int, nulls: int) -> Tally:
        """Nothing counted."""
        shape = traits, len(FREQUENCIES) - 1
        sizes = (1 + nulls, len(THRESHOLDS)), (1 + nulls,), (2, _BINS)
        return cls(*(np.zeros((*shape, *size), np.int64) for size in sizes))

    def add(self, traits: Sequence[int], statistic: NDArray[np.float64], frequency: NDArray[np.float64], df: NDArray[np.float64]) -> None:
        """Count a block's statistics `[v, traits (1 + m)]` (NaN: no result), by frequencies of ALT `[v]` and degrees of freedom `[v]`."""
        own = statistic.reshape(len(statistic), len(traits), -1)
        critical = _critical(df)
        minor = np.minimum(frequency, 1 - frequency)
        for place in range(self.tests.shape[1]):
            chosen = (minor > FREQUENCIES[place]) & (minor <= FREQUENCIES[place + 1])
            strength = np.abs(own[chosen])
            self.tests[traits, place] += np.isfinite(strength).sum(axis=0)
            for at in range(len(THRESHOLDS)):
                self.passed[traits, place, :, at] += (strength >= critical[chosen, at, None, None]).sum(axis=0)
            for i, trait in enumerate(traits):
                for side, values in enumerate((strength[:, i, :1], strength[:, i, 1:])):
                    squares = values[np.isfinite(values)] ** 2
                    bins = np.minimum(squares / _WIDTH, _BINS - 1).astype(np.int64)
                    self.squares[trait, place, side] += np.bincount(bins, minlength=_BINS)

    @staticmethod
    def together(several: Sequence[Tally]) -> Tally:
        """The counts of several parts."""
        return Tally(*(np.sum([getattr(one, name) for one in several], axis=0) for name in ("passed", "tests", "squares")))

    def frame(self, traits: Sequence[str]) -> pl.DataFrame:
        """A row a trait, bin of frequency with results, and threshold: TABLE.

        The interval (95 %) is Wilson's, of as many tests as vary as much as the null traits do from one to the next: variants in linkage
        pass together.
        """
        rows = list[tuple[object, ...]]()
        for trait, place in np.argwhere(self.tests[:, :, 1:].sum(axis=2) > 0):
            tests, bins = self.tests[trait, place, 1:], FREQUENCIES[place : place + 2]
            spread = [_inflation(self.squares[trait, place, side]) for side in (1, 0)]
            for threshold, passed in zip(THRESHOLDS, self.passed[trait, place, 1:].T, strict=True):
                found, number = int(passed.sum()), int(tests.sum())
                low, high = _interval(found / number, number / _excess(passed, tests))
                rows.append((traits[trait], *bins, threshold, number, found, found / number, low, high, *spread))
        return pl.DataFrame(rows, TABLE, orient="row")


def with_nulls(design: Design, nulls: int, seed: int) -> Design:
    """The design with each trait before its null traits."""
    used = unpack(design.mask[None, :], design.n_samples)[0] == MISSING
    known = np.broadcast_to(used[:, None], design.residuals.shape)
    residuals = _before_nulls(design.residuals, known, design.trait_names, (nulls, seed))
    return replace(design, residuals=_freed(residuals, design.basis), trait_names=_names(design.trait_names, nulls))


def predicted_with_nulls(design: PredictedDesign, nulls: int, seed: int) -> PredictedDesign:
    """The same with predictions taken off: what they leave is permuted."""
    known = np.repeat(design.known, 1 + nulls, axis=1)
    residuals = _before_nulls(design.residuals, design.known, design.trait_names, (nulls, seed))
    freed = np.where(known, _freed(residuals, design.basis), 0.0)
    freed[:, :: 1 + nulls] = design.residuals
    groups = tuple(tuple(trait * (1 + nulls) + i for trait in group for i in range(1 + nulls)) for group in design.groups)
    names, scales = _names(design.trait_names, nulls), np.repeat(design.scales, 1 + nulls)
    return replace(design, residuals=freed, known=known, scales=scales, trait_names=names, groups=groups)


def _names(traits: Sequence[str], nulls: int) -> tuple[str, ...]:
    return tuple(name for trait in traits for name in (trait,) * (1 + nulls))


def _before_nulls(
    residuals: NDArray[np.float64], known: NDArray[np.bool_], traits: Sequence[str], drawn: tuple[int, int]
) -> NDArray[np.float64]:
    """Each trait and its permutations among those who have it, `float64[n, t (1 + m)]`."""
    nulls, seed = drawn
    found = np.zeros((len(residuals), len(traits), 1 + nulls))
    for place, trait in enumerate(traits):
        there = np.flatnonzero(known[:, place])
        random = np.random.default_rng([seed, crc32(trait.encode())])
        found[there, place] = residuals[there, place, None]
        for null in range(1, 1 + nulls):
            found[there, place, null] = residuals[random.permutation(there), place]
    return found.reshape(len(residuals), -1)


def _freed(residuals: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    return residuals - basis @ (basis.T @ residuals)


def _critical(df: NDArray[np.float64]) -> NDArray[np.float64]:
    """Student's t, `[v, thresholds]`, of variants' degrees of freedom; infinite ones are the normal's."""
    from scipy.special import stdtrit

    each, place = np.unique(np.maximum(df, 1), return_inverse=True)
    return np.asarray(-stdtrit(each[:, None], np.array(THRESHOLDS) / 2)[place])


def _inflation(squares: NDArray[np.int64]) -> float | None:
    """Genomic control: the median square over that of chi-square with one degree of freedom."""
    total = np.cumsum(squares)
    if not total[-1]:
        return None
    place = int(np.searchsorted(total, total[-1] / 2))
    before = total[place] - squares[place]
    return float((place + (total[-1] / 2 - before) / squares[place]) * _WIDTH / MEDIAN_CHI_SQUARE)


def _excess(passed: NDArray[np.int64], tests: NDArray[np.int64]) -> float:
    """By how much null traits vary more than independent tests would, 1 at least."""
    rate = passed.sum() / tests.sum()
    if len(passed) < 2 or not 0 < rate < 1:
        return 1.0
    return max(1.0, float((((passed - rate * tests) ** 2) / np.maximum(rate * (1 - rate) * tests, 1e-300)).sum() / (len(passed) - 1)))


def _interval(rate: float, tests: float) -> tuple[float, float]:
    """Wilson's interval of 95 %."""
    z = NormalDist().inv_cdf(0.975)
    middle, half = rate + z * z / (2 * tests), z * np.sqrt(rate * (1 - rate) / tests + (z / (2 * tests)) ** 2)
    return max(0.0, float(middle - half) / (1 + z * z / tests)), float(middle + half) / (1 + z * z / tests)
