"""Variance-component tests of a set of variants: SKAT, SKAT-O over a grid of correlations, ACAT-V, from score statistics.

Wu et al. 2011 (Am J Hum Genet 89:82), Lee, Wu & Lin 2012 (Biostatistics 13:762). With s the scores of m variants times their weights and
W the covariance of s under the null, Q(rho) = (1 - rho) sum of s_j^2 + rho (sum of s_j)^2 is a weighted sum of chi-squares whose weights
are the eigenvalues of R^1/2 W R^1/2, R(rho) = (1 - rho) I + rho 11'. rho = 0 is SKAT, 1 the burden test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.cauchy import LEAST, cauchy_combination
from pipeline.kernels.quadratic_forms import mixture_tail, quadratic_form_logarithm

Floats = NDArray[np.float64]

RHO = (0.0, 0.01, 0.04, 0.09, 0.16, 0.25, 0.5, 1.0)
"""The correlations of SKAT-O."""

_NO_WEIGHT = 1e-9  # of the greatest eigenvalue: rounding
_NODES, _LONGEST = 8, 1.5  # of a piece of SKAT-O's integral: Gauss-Legendre's points, and its length in standard deviations
_ONE = 1 - 1e-9


@dataclass(frozen=True)
class SetCovariance:
    """What a set's tests need of the covariance of its weighted scores, whatever the trait."""

    covariance: Floats
    """`W: float64[m, m]`."""
    mixtures: Floats
    """`float64[r, m]`: the weights of chi-squares for each rho."""

    @classmethod
    def of(cls, covariance: Floats) -> SetCovariance:
        """From `W`. Raises ValueError where nothing varies."""
        m = len(covariance)
        if not np.trace(covariance) > 0:
            raise ValueError("The scores of a set do not vary: its variants are constant, or covariates explain them.")
        rho = np.array(RHO)
        own, all_alike = np.sqrt(1 - rho), np.sqrt(1 - rho + m * rho)
        root = own[:, None, None] * np.eye(m) + ((all_alike - own) / m)[:, None, None] * np.ones((m, m))
        values = np.linalg.eigvalsh(root @ covariance @ root)
        return cls(covariance, _positive(values))

    def grid(self, scores: Floats) -> Floats:
        """-log10 p of Q(rho), `float64[r]`, for weighted `scores: float64[m]`."""
        rho = np.array(RHO)
        value, varies = (1 - rho) * (scores**2).sum() + rho * scores.sum() ** 2, self.mixtures.any(axis=1)
        found = np.zeros(len(rho))
        found[varies] = quadratic_form_logarithm(self.mixtures[varies], value[varies])
        return found

    def optimal(self, grid: Floats) -> float:
        """SKAT-O's -log10 p of those of the grid: how often the least p-value is as small.

        Given x, the chi-square of the scores' mean, each rho leaves (q(rho) - tau(rho) x) / (1 - rho) to the rest, q(rho) the quantile
        of Q(rho) at the least p-value (by moments, Liu et al. 2009): P(rest > least of these) is integrated over x in pieces between
        which another rho is the least. Below 1e-300 p is its bound: the least one times the number of rhos.
        """
        greatest = float(grid.max())
        least = float(max(10**-greatest, LEAST))
        rho = np.minimum(np.array(RHO), _ONE)
        ones = self.covariance.sum(axis=1)
        total = ones.sum()
        if total <= 1e-12 * np.trace(self.covariance):  # the mean's score does not vary
            return greatest
        mean_part = np.outer(ones, ones) / total
        rest = _positive(np.linalg.eigvalsh(self.covariance - mean_part)[None])[0]
        if rest.max() <= 1e-9 * np.trace(self.covariance):  # one variant, or all alike
            return greatest
        if least <= LEAST:
            return greatest - float(np.log10(len(RHO)))
        shared = 4 * float((mean_part * (self.covariance - mean_part)).sum())
        mean, variance = rest.sum(), 2 * (rest**2).sum()
        shrink = np.sqrt(variance / (variance + shared))
        tau = rho * total + (1 - rho) * (ones @ ones) / total
        left = _moment_quantiles(self.mixtures, least) / (1 - rho)
        falls = tau / (1 - rho)
        ends = float(((left - mean * (1 - 1 / shrink)) / falls).min())  # beyond, the rest is sure to be more
        if ends <= 0:
            return 0.0
        x, share = _pieces(left, falls, np.sqrt(ends))
        limit = (left[:, None] - falls[:, None] * x**2).min(axis=0)
        from scipy.special import ndtr

        inside = share @ (mixture_tail(rest, (limit - mean) * shrink + mean) * np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2))
        found = float(inside + 2 * ndtr(-np.sqrt(ends)))
        return float(0.0 - np.log10(np.clip(found, least, min(1.0, least * len(RHO)))))


def variant_weights(frequency: Floats, shape: tuple[float, float] = (1.0, 25.0)) -> Floats:
    """Weights of variants: the density of a beta distribution at the minor allele's frequency, `float64[m]`."""
    from scipy.special import betaln, xlog1py, xlogy

    (first, second), minor = shape, np.minimum(frequency, 1 - frequency)
    return np.asarray(np.exp(xlogy(first - 1, minor) + xlog1py(second - 1, -minor) - betaln(first, second)))


def combination_weights(frequency: Floats, shape: tuple[float, float] = (1.0, 25.0)) -> Floats:
    """Weights of single variants' p-values in ACAT-V: those of their scores squared, times f (1 - f) (Liu et al. 2019)."""
    return np.asarray(variant_weights(frequency, shape) ** 2 * frequency * (1 - frequency))


def set_tests(covariance: SetCovariance, scores: Floats, single: Floats, single_weights: Floats) -> dict[str, float]:
    """-log10 p of a set's tests, by name, of weighted `scores: float64[m]`.

    `single: float64[m]` are those of the variants alone, combined by `single_weights: float64[m]`. acat_o combines that with the grid.
    """
    grid = covariance.grid(scores)
    variants = cauchy_combination(single, single_weights)
    return {
        "skat": float(grid[0]),
        "skat_o": covariance.optimal(grid),
        "skat_o_acat": cauchy_combination(grid),
        "acat_v": variants,
        "acat_o": cauchy_combination(np.array([variants, *grid])),
    }


def _positive(values: Floats) -> Floats:
    """Eigenvalues `[r, m]` with those that are rounding set to 0."""
    return np.where(values > _NO_WEIGHT * values.max(), values, 0)


def _moment_quantiles(mixtures: Floats, p: float) -> Floats:
    """What sums of chi-squares exceed with probability `p`, by scaled chi-squares of their mean, variance and kurtosis, `float64[r]`."""
    from scipy.special import chdtri

    second, fourth = (mixtures**2).sum(axis=1), (mixtures**4).sum(axis=1)
    freedom = second**2 / fourth
    return np.asarray((chdtri(freedom, p) - freedom) / np.sqrt(2 * freedom) * np.sqrt(2 * second) + mixtures.sum(axis=1))


def _pieces(left: Floats, falls: Floats, end: float) -> tuple[Floats, Floats]:
    """Points and shares of an integral from 0 to `end` of what has kinks where the least of lines in x^2 changes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (left[:, None] - left) / (falls[:, None] - falls)
    first, second = np.nonzero(np.isfinite(meet) & (meet > 0) & (meet < end**2))
    at = meet[first, second]
    lines = left[:, None] - falls[:, None] * at
    lowest = lines.min(axis=0)
    kinks = np.sqrt(np.unique(at[lines[first, np.arange(len(at))] <= lowest + 1e-9 * abs(lowest)]))
    edges = np.unique(np.concatenate([kinks, np.linspace(0, end, 2 + int(end / _LONGEST))]))
    points, shares = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    return ((edges[:-1, None] + half) + half * points).ravel(), (half * shares).ravel()
