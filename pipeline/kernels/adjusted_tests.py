"""Tests of one effect on a binary trait with all else fixed: Firth's likelihood ratio, and the saddle point of the score.

A person's log odds are o + a beta: o is fixed (covariates, and predictions of a whole-genome regression), and a is the genotype less what
the covariates explain of it under the null model's weights. With p the probabilities and w = p (1 - p), the penalized log likelihood is
sum y (o + a beta) - log(1 + e^(o + a beta)) + log(sum a^2 w) / 2 (Firth 1993, Biometrika 80:27-38; approximate as in Mbatchou et al. 2021).
`saddle_point` has the score s = sum a (y - p) of people who vary each by himself: K(t) = sum log(1 - p + p e^(a t)) - t sum a p,
K'(t) = s, w = sign(t) sqrt(2 (t s - K)), v = t sqrt(K''), z = w + log(v / w) / w (Barndorff-Nielsen 1990; Dey et al. 2017, AJHG
101:37-49, who take people without the allele as normal, which is much quicker).

In all arrays a variant is a row, a person a column; a = 0 for who is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array

STEPS, STILL = 60, 1e-7
"""Newton's method ends where a step is less than so many standard errors, or fails after so many."""
FARTHEST = 4.0
"""The longest step, in the unit of the slowest person's log odds; of a saddle point the first, as each may be twice the one before."""
_LEAST, _FLAT = 1e-200, 1e-9


class Effect(NamedTuple):
    """Firth's estimates of v variants, `float64[v]` each; NaN where there is none."""

    beta: Array
    standard_error: Array
    """Of the information at beta: 1 / sqrt(sum a^2 w)."""
    chi_square: Array
    """Twice what the penalized log likelihood gains over no effect."""


def adjusted_likelihood_ratio(adjusted: Array, cases: Array, log_odds: Array, start: Array) -> Effect:
    """Firth's estimates of `adjusted: float64[v, n]`, `cases: float64[n]` (0, 1) and fixed `log_odds: float64[n]`, from `start: [v]`.

    Where the likelihood has several maxima it is the one nearest to no effect, or near: no start is farther than a longest step.
    """
    if array_module(adjusted) is np:
        from pipeline.kernels.compiled.adjusted_tests import likelihood_ratios

        found = Effect(*np.full((3, len(adjusted)), np.nan))
        likelihood_ratios(np.ascontiguousarray(adjusted), cases, log_odds, start, found)
        return found
    return adjusted_likelihood_ratio_plain(adjusted, cases, log_odds, start)


def longest_steps(adjusted: Array) -> Array:
    """The longest step of each effect, `float64[v]`: it moves nobody's log odds, or log hazard, by more than FARTHEST."""
    xp = array_module(adjusted)
    return FARTHEST / xp.maximum(abs(adjusted).max(axis=1), 1e-300)


def guarded_newton(step: Callable[[Array], tuple[Array, Array]], start: Array, farthest: Array, growth: float = 1) -> tuple[Array, Array]:
    """Where Newton's steps lead from `start: float64[v]`, and which came to stand still, `bool[v]`.

    `step` tells of each place its step and that step's length in standard errors, `float64[v]` both. Steps are at most
    `farthest: float64[v]` long, which grows with each, and stay between what is known too low and too high.
    """
    xp = array_module(start)
    at, low, high = start.copy(), xp.full(len(start), -xp.inf), xp.full(len(start), xp.inf)
    still = xp.zeros(len(start), bool)
    for _ in range(STEPS):
        moved, length = step(at)
        still |= length < STILL
        low, high = xp.where(moved > 0, at, low), xp.where(moved > 0, high, at)
        after = at + xp.clip(moved, -farthest, farthest)
        at = xp.where(still, at, xp.where((after > low) & (after < high), after, (low + high) / 2))
        farthest = farthest if growth == 1 else farthest * growth
        if bool(still.all()):
            break
    return at, still


def adjusted_likelihood_ratio_plain(adjusted: Array, cases: Array, log_odds: Array, start: Array) -> Effect:
    """As `adjusted_likelihood_ratio`, by array functions alone."""
    xp = array_module(adjusted)

    def step(beta: Array) -> tuple[Array, Array]:
        """Newton's on the penalized likelihood, or by the information alone where that is not curved as a maximum is."""
        p = 1 / (1 + xp.exp(-(log_odds + beta[:, None] * adjusted)))
        weighted = adjusted**2 * p * (1 - p)
        second = xp.maximum(weighted.sum(axis=1), _LEAST)
        third = (weighted * adjusted * (1 - 2 * p)).sum(axis=1) / second
        fourth = (weighted * adjusted**2 * (1 - 6 * p * (1 - p))).sum(axis=1) / second
        slope = (adjusted * (cases - p)).sum(axis=1) + third / 2
        curve = second - (fourth - third**2) / 2
        moved = slope / xp.where(curve > 0, curve, second)
        return moved, abs(moved) * xp.sqrt(second)

    farthest = longest_steps(adjusted)
    beta, still = guarded_newton(step, xp.clip(start, -farthest, farthest), farthest)
    here, none = log_odds + beta[:, None] * adjusted, xp.broadcast_to(log_odds, adjusted.shape)
    gain = (cases * (here - none) - xp.logaddexp(0, here) + xp.logaddexp(0, none)).sum(axis=1)
    information, before = (_information(adjusted, odds) for odds in (here, none))
    chi_square = xp.maximum(2 * gain + xp.log(information / before), 0)
    found = still & (adjusted != 0).any(axis=1)
    return Effect(*(xp.where(found, values, xp.nan) for values in (beta, information**-0.5, chi_square)))


def _information(adjusted: Array, log_odds: Array) -> Array:
    xp = array_module(adjusted)
    p = 1 / (1 + xp.exp(-log_odds))
    return xp.maximum((adjusted**2 * p * (1 - p)).sum(axis=1), _LEAST)


class Tails(NamedTuple):
    """The normal deviates of a score as far above and as far below its mean as it lies from it, `float64[v]`.

    Infinite where a score cannot lie so far; NaN where no saddle point is found.
    """

    above: Array
    below: Array


def saddle_point(adjusted: Array, log_odds: Array, score: Array, normal: Array) -> Tails:
    """The deviates of `score: float64[v]`, with the null model's `log_odds: float64[n]`; whose scores count as normal is `bool[v, n]`."""
    if array_module(adjusted) is np:
        from pipeline.kernels.compiled.adjusted_tests import saddle_points

        found = Tails(*np.full((2, len(adjusted)), np.nan))
        saddle_points(np.ascontiguousarray(adjusted), log_odds, score, normal, found)
        return found
    return saddle_point_plain(adjusted, log_odds, score, normal)


def saddle_point_plain(adjusted: Array, log_odds: Array, score: Array, normal: Array) -> Tails:
    """As `saddle_point`, by array functions alone."""
    xp = array_module(adjusted)
    p = 1 / (1 + xp.exp(-log_odds))
    spread = (xp.where(normal, adjusted, 0) ** 2 * p * (1 - p)).sum(axis=1)
    own = xp.where(normal, 0, adjusted)
    return Tails(*(_deviate(own, log_odds, sign * abs(score), spread) for sign in (1, -1)))


def _deviate(own: Array, log_odds: Array, score: Array, spread: Array) -> Array:
    """The deviate of a score; `spread` is the variance of those who count as normal."""
    xp = array_module(own)
    none = xp.broadcast_to(log_odds, own.shape)
    before = 1 / (1 + xp.exp(-log_odds))
    unit = xp.sqrt(xp.maximum((own**2 * before * (1 - before)).sum(axis=1) + spread, _LEAST))
    centre = (own * before).sum(axis=1)
    most, least = xp.maximum(own, 0).sum(axis=1) - centre, xp.minimum(own, 0).sum(axis=1) - centre
    beyond = (spread == 0) & ((score > most) | (score < least))

    def step(at: Array) -> tuple[Array, Array]:
        """Newton's on K'(t) = s."""
        p = 1 / (1 + xp.exp(-(none + at[:, None] * own)))
        first = (own * (p - before)).sum(axis=1) + at * spread
        second = xp.maximum((own**2 * p * (1 - p)).sum(axis=1) + spread, _LEAST)
        moved = (score - first) / second
        return moved, abs(moved) * unit

    with np.errstate(over="ignore"):  # a chance that is 0
        at, still = guarded_newton(step, score / unit**2, FARTHEST / unit, growth=2)
    here = none + at[:, None] * own
    cumulant = (xp.logaddexp(0, here) - xp.logaddexp(0, none) - at[:, None] * own * before).sum(axis=1) + at**2 * spread / 2
    p = xp.exp(-xp.logaddexp(0, -here))
    second = (own**2 * p * (1 - p)).sum(axis=1) + spread
    root = xp.sign(at) * xp.sqrt(2 * xp.maximum(at * score - cumulant, 0))
    other = at * xp.sqrt(second)
    fine = (abs(root) > 1e-4) & (abs(other) > 1e-4)  # nearer to the mean the two are one
    root, other = xp.where(fine, root, 1.0), xp.where(fine, other, 1.0)
    still &= second > _FLAT * unit**2
    found = xp.where(still, xp.where(fine, root + xp.log(other / root) / root, score / unit), xp.nan)
    return xp.where(beyond, xp.where(score > 0, xp.inf, -xp.inf), found)
