"""LD score regression: heritability, confounding and genetic correlation from statistics of scans alone.

Bulik-Sullivan et al. 2015 (Nat Genet 47:291-295) for one trait: E[chi^2] = N h^2 l / M + intercept; Bulik-Sullivan et al. 2015 (Nat Genet
47:1236-1241) for two: E[z1 z2] = sqrt(N1 N2) rho_g l / M + intercept. Regressions are weighted by what variances are expected and by LD
scores, for linked variants tell the same; weights are made anew twice. The intercept is fitted to statistics below a limit alone (two
steps); standard errors are those of a jackknife over blocks of neighbours. Steps and weights are ldsc's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Jackknifed:
    """An estimate `float64[k]` and what it is without each of b blocks, `float64[b, k]`."""

    value: Floats
    without: Floats

    @property
    def standard_error(self) -> Floats:
        """`float64[k]`, by the spread of pseudovalues."""
        blocks = len(self.without)
        pseudo = blocks * self.value - (blocks - 1) * self.without
        error: Floats = np.sqrt(pseudo.var(axis=0, ddof=1) / blocks)
        return error


@dataclass(frozen=True)
class Fit:
    """Heritability, or genetic covariance (`total`, of one number), and the intercept; its error is NaN where it was given."""

    total: Jackknifed
    intercept: float
    intercept_error: float


@dataclass(frozen=True)
class Scores:
    """LD scores of v variants, `float64[v]`, in the order of the genome, and the number of variants that heritability is spread over."""

    ld: Floats
    variants: float
    blocks: int = 200
    limit: float | None = None
    """The intercept is fitted first, to variants of a chi-square below this alone; together with the slope where it is None."""

    @property
    def floor(self) -> Floats:
        """LD scores for weights: 1 at least."""
        return np.maximum(self.ld, 1.0)


def heritability(chi_square: Floats, n: Floats, scores: Scores, intercept: float | None = None) -> Fit:
    """Of a trait from chi-squares `float64[v]` of `n: float64[v]` people; the `intercept` is estimated unless it is given.

    Raises LinAlgError where LD scores do not vary.
    """

    def weights(h2: float, offset: float, ld: Floats = scores.floor) -> Floats:
        """One over the variance of a chi-square, and over how often the same LD is counted."""
        expected = offset + np.clip(h2, 0, 1) * n / scores.variants * ld
        found: Floats = 1 / (2 * expected**2 * scores.floor)
        return found

    return _fit(chi_square, n, scores, weights, _below(scores, chi_square), (1.0, intercept))


def genetic_covariance(
    z: tuple[Floats, Floats], n: tuple[Floats, Floats], scores: Scores, fits: tuple[Fit, Fit], intercept: float | None = None
) -> Fit:
    """Of two traits from their statistics z of the same allele, and the `fits` of their heritabilities.

    NaN where by these a statistic has no variance, which happens to small scans: an intercept is far below 1.
    """
    sizes = np.sqrt(n[0] * n[1])

    def expected(ld: Floats) -> tuple[Floats, Floats]:
        """Mean chi-squares of both traits by their fits."""
        first, second = (
            fit.intercept + np.clip(fit.total.value[0], 0, 1) * count / scores.variants * ld for fit, count in zip(fits, n, strict=True)
        )
        return first, second

    def weights(covariance: float, offset: float, ld: Floats = scores.floor) -> Floats:
        """One over the variance of a product of statistics, and over how often the same LD is counted."""
        first, second = expected(ld)
        shared = offset + np.clip(covariance, -1, 1) * sizes / scores.variants * ld
        found: Floats = 1 / ((first * second + shared**2) * scores.floor)
        return found

    if min(each.min() for each in expected(scores.floor)) <= 0:
        return Fit(Jackknifed(np.full(1, np.nan), np.full((2, 1), np.nan)), np.nan, np.nan)
    return _fit(z[0] * z[1], sizes, scores, weights, _below(scores, np.maximum(z[0] ** 2, z[1] ** 2)), (0.0, intercept))


def genetic_correlation(covariance: Fit, fits: tuple[Fit, Fit]) -> tuple[float, float]:
    """r_g and its standard error; NaN where a heritability is not above 0."""
    first, second = (fit.total for fit in fits)
    if not (first.value[0] > 0 and second.value[0] > 0 and np.isfinite(covariance.intercept)):
        return np.nan, np.nan
    with np.errstate(invalid="ignore"):
        without = covariance.total.without / np.sqrt(first.without * second.without)
    found = Jackknifed(covariance.total.value / np.sqrt(first.value * second.value), without)
    return float(found.value[0]), float(found.standard_error[0])


def _below(scores: Scores, chi_square: Floats) -> Any:
    return None if scores.limit is None else chi_square < scores.limit


def _fit(y: Floats, n: Floats, scores: Scores, weights: Callable[..., Floats], low: Any, offset: tuple[float, float | None]) -> Fit:
    """The regression of y on N l; `low`: rows that the intercept is fitted to first, if any; `offset`: under the null, and given."""
    null, given = offset
    mean = n.mean()
    x = (n * scores.ld / mean)[:, None]
    if np.ptp(x) == 0:
        raise np.linalg.LinAlgError("LD scores do not vary")
    scale = scores.variants / mean
    ends = _even(len(y), scores.blocks)
    start = float(scores.variants * (y.mean() - (null if given is None else given)) / (n * scores.ld).mean())
    first = weights(start, null if given is None else given)
    if given is not None:
        slope = _reweighted(x, y - given, first, lambda b: weights(b[0] * scale, given), ends)
        return Fit(_scaled(slope, scale), given, np.nan)
    both = np.column_stack([x, np.ones(len(y))])
    if low is None:
        one = _reweighted(both, y, first, lambda b: weights(b[0] * scale, b[1]), ends)
        return Fit(_scaled(one, scale), float(one.value[1]), float(one.standard_error[1]))
    ends = _even(int(low.sum()), scores.blocks)
    seen = np.maximum(x[:, 0], 1.0)  # as ldsc has it in the first step: LD scores times N over its mean
    one = _reweighted(both[low], y[low], first[low], lambda b: weights(b[0] * scale, b[1], seen)[low], ends)
    intercept = float(one.value[1])
    ends = np.concatenate([[0], np.flatnonzero(low)[ends[1:-1]], [len(y)]])
    slope = _reweighted(x, y - intercept, first, lambda b: weights(b[0] * scale, intercept), ends)
    shift = (first * x[:, 0]).sum() / (first * x[:, 0] ** 2).sum()
    without = slope.without - shift * (one.without[:, 1:] - intercept)
    return Fit(_scaled(Jackknifed(slope.value, without), scale), intercept, float(one.standard_error[1]))


def _scaled(slope: Jackknifed, scale: float) -> Jackknifed:
    """Of the slope alone, times the scale."""
    return Jackknifed(slope.value[:1] * scale, slope.without[:, :1] * scale)


def _even(rows: int, blocks: int) -> NDArray[np.int64]:
    """Where blocks of about the same size begin, and the end."""
    return np.floor(np.linspace(0, rows, min(blocks, rows) + 1)).astype(np.int64)


def _reweighted(x: Floats, y: Floats, weights: Floats, anew: Callable[[Floats], Floats], ends: NDArray[np.int64]) -> Jackknifed:
    """Least squares of y on `x[v, k]` after weights were made anew twice, and without each block, whose weights stay."""
    for _ in range(2):
        weights = anew(np.linalg.lstsq(x * np.sqrt(weights)[:, None], y * np.sqrt(weights))[0])
    weights = weights / weights.sum()
    starts = ends[:-1]
    squares = np.add.reduceat(x[:, :, None] * x[:, None, :] * weights[:, None, None], starts)
    products = np.add.reduceat(x * (y * weights)[:, None], starts)
    whole, right = squares.sum(axis=0), products.sum(axis=0)
    without = np.linalg.solve(whole - squares, (right - products)[:, :, None])[:, :, 0]
    return Jackknifed(np.linalg.solve(whole, right), without)
