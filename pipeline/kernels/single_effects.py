"""The sum of single effects (SuSiE): which variants of a locus act, from their z statistics and linkage disequilibrium.

Wang, Sarkar, Carbonetto & Stephens 2020 (J R Stat Soc B 82:1273-1300); from summary statistics Zou, Carbonetto, Wang & Stephens 2022 (PLoS
Genet 18:e1010299). The effects of a locus are a sum of vectors with one variant each; each is fitted in turn to what the others leave,
its prior variance by greatest likelihood, until nothing changes. The residual variance is 1: what linkage explains is taken from a panel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DataError

Floats = NDArray[np.float64]

SETTLED = 1e-6
"""Probabilities that change by no more than this are settled."""
_NONE = 1e-9
"""An effect of a smaller prior variance is none."""
_LOWEST, _HIGHEST, _PLACES, _GOLDEN = -30.0, 15.0, 46, (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class SingleEffects:
    """Of a locus of v variants, k effects: each one's probabilities `alpha: float64[k, v]`, and means and squares if it is that variant.

    In units of standard deviations of trait and calls. `log_bayes_factors: float64[k]` are natural ones, beside no effect.
    """

    alpha: Floats
    mean: Floats
    square: Floats
    variance: Floats
    log_bayes_factors: Floats
    rounds: int
    settled: bool

    @property
    def active(self) -> NDArray[np.bool_]:
        """Effects that have a variance, `bool[k]`."""
        found: NDArray[np.bool_] = self.variance > _NONE
        return found

    @property
    def inclusion(self) -> Floats:
        """Each variant's probability to act, `float64[v]`."""
        return np.asarray(1 - np.prod(1 - self.alpha[self.active], axis=0))

    @property
    def posterior(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each variant's effect, `float64[v]`."""
        one = self.alpha * self.mean
        return one.sum(axis=0), np.sqrt(np.maximum((self.alpha * self.square - one**2).sum(axis=0), 0))


@dataclass(frozen=True)
class CredibleSet:
    """Variants that hold the variant of one effect with some probability (`coverage`), the likeliest first; `purity` is their least |r|."""

    effect: int
    variants: NDArray[np.int64]
    coverage: float
    purity: float


def single_effects(z: Floats, r: Floats, n: float, effects: int = 10, rounds: int = 500) -> SingleEffects:
    """At most so many `effects` of v variants, from z `float64[v]` of `n` people and correlations of their calls `r: float64[v, v]`.

    Raises DataError where the correlations cannot be those of these z: a variant explains more than there is.
    """
    count = len(z)
    share = z * np.sqrt((n - 1) / (z**2 + n - 2))  # what z would be if it did not take its own share out of the residuals
    alpha, mean, square = np.full((effects, count), 1 / count), np.zeros((effects, count)), np.zeros((effects, count))
    variance, factors = np.full(effects, 0.2), np.zeros(effects)
    settled, done = False, 0
    while not settled and done < rounds:
        before, done = alpha.copy(), done + 1
        fitted = r @ (alpha * mean).sum(axis=0)
        for k in range(effects):
            own = r @ (alpha[k] * mean[k])
            estimate = share / np.sqrt(n - 1) - (fitted - own)
            variance[k], alpha[k], mean[k], square[k], factors[k] = _one_effect(estimate, 1 / (n - 1))
            fitted += r @ (alpha[k] * mean[k]) - own
        if not np.isfinite(fitted).all() or abs(fitted).max() > _FAR:
            raise DataError(
                "z statistics and linkage contradict one another; is the panel of the scan's ancestry, and are alleles aligned?"
            )
        settled = bool(abs(alpha - before).max() <= SETTLED)
    return SingleEffects(alpha, mean, square, variance, factors, done, settled)


_FAR = 100.0
"""Standard deviations of the trait per one of a variant, beyond which no effect lies."""


def _one_effect(estimate: Floats, noise: float) -> tuple[float, Floats, Floats, Floats, float]:
    """Prior variance, probabilities, means, squares and log Bayes factor of one effect; each variant's `estimate` has variance `noise`."""
    grid = np.linspace(_LOWEST, _HIGHEST, _PLACES)
    best = int(np.argmax([_log_likelihood(estimate, noise, place) for place in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, _PLACES - 1)]
    while high - low > 1e-7:
        one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _log_likelihood(estimate, noise, one) < _log_likelihood(estimate, noise, two):
            low = one
        else:
            high = two
    place = (low + high) / 2
    factor = _log_likelihood(estimate, noise, place)
    count = len(estimate)
    if factor <= 0:
        return 0.0, np.full(count, 1 / count), np.zeros(count), np.zeros(count), 0.0
    variance = float(np.exp(place))
    logs = _log_factors(estimate, noise, variance)
    alpha = np.exp(logs - logs.max())
    spread = 1 / (1 / variance + 1 / noise)
    mean = spread / noise * estimate
    return variance, alpha / alpha.sum(), mean, mean**2 + spread, factor


def _log_factors(estimate: Floats, noise: float, variance: float) -> Floats:
    """Log Bayes factor of each variant (Wakefield 2009)."""
    shrunk = variance / (variance + noise)
    return np.asarray(0.5 * (np.log1p(-shrunk) + estimate**2 / noise * shrunk))


def _log_likelihood(estimate: Floats, noise: float, place: float) -> float:
    """Log of the mean Bayes factor, of a prior variance of exp(place)."""
    logs = _log_factors(estimate, noise, float(np.exp(place)))
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).mean()))


def credible_sets(found: SingleEffects, r: Floats, coverage: float, purity: float) -> list[CredibleSet]:
    """The smallest sets that hold each active effect's variant with probability `coverage`, each once.

    Those of a least |r| below `purity` are left out.
    """
    sets, seen = [], set[tuple[int, ...]]()
    for k in np.flatnonzero(found.active):
        order = np.argsort(-found.alpha[k], kind="stable")
        total = np.cumsum(found.alpha[k][order])
        variants = order[: int(np.searchsorted(total, coverage - 1e-12)) + 1]
        least = float(abs(r[np.ix_(variants, variants)]).min())
        key = tuple(sorted(variants.tolist()))
        if least >= purity and key not in seen:
            seen.add(key)
            sets.append(CredibleSet(int(k), variants, float(total[len(variants) - 1]), least))
    return sets
