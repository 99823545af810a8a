"""One variant's effect on a binary trait with fixed log odds computed again, the slow way: by roots of slopes. For an audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.audit import TIED, Again, Genotype, Numbers, at_maximum
from pipeline.kernels.roots import between, falling_root

_RARE = 50  # copies of an allele below which the one effect is that of its carriers
_WALK, _STEPS = 0.5, 60  # log odds of the person who is moved most, a step


def offset_again(genotype: Genotype, covariates: Numbers, case: Numbers, log_odds: tuple[Numbers, Numbers], test: str) -> Again:
    """The effect on a trait of 0 and 1 with fixed log odds, by maximum likelihood and by Firth's fit, by the test that a row carries.

    score: one step; firth_approximate: where the penalized likelihood of the one effect falls again (the first time, the `others` later);
    spa: the score test's deviate
    by the saddle point, times its standard error; wald and firth_lrt: as `logistic_again`, about the first log odds. A missing genotype is
    the mean of those with all covariates.
    """
    used = ~np.isnan(covariates).any(axis=1)
    counted, copies = genotype
    own, called = used & ~np.isnan(case), used & ~np.isnan(counted)
    n = int((own & called).sum())
    if not called.any():
        return Again(np.nan, np.nan, n)
    total, additive = copies[own & called].sum(), np.array_equal(counted, copies, equal_nan=True)
    sign, rarer = (-1, 2 - counted) if total > n and additive else (1, counted)
    filled = np.where(called, rarer, rarer[called].mean())
    mostly = 2 * (filled[used] > 0).sum() > len(filled)  # carry it: then nobody is left out, or counts as normal
    filled = filled[own]
    (null, firth), values = (odds[own] for odds in log_odds), case[own]
    if test in ("wald", "firth_lrt"):
        return at_maximum(np.where(called, counted, counted[called].mean()), covariates, (own, values, n), null, firth=test != "wald")
    p = 1 / (1 + np.exp(-null))
    weights, varied = p * (1 - p), np.ptp(covariates[own], axis=0) > 0
    columns = np.column_stack([np.ones(len(values)), covariates[own][:, varied]])
    left = filled - columns @ np.linalg.lstsq(columns * np.sqrt(weights)[:, None], filled * np.sqrt(weights), rcond=None)[0]
    information, score = float(left**2 @ weights), float(left @ (values - p))
    if information <= TIED * float((filled - filled.mean()) ** 2 @ weights):
        return Again(np.nan, np.nan, n)
    beta, error = score / information, information**-0.5
    if test == "spa":
        beta = _by_tails(left, null, (filled > 0) | mostly, score) * error
    elif test != "score":
        everyone = min(total, 2 * n - total) >= _RARE or mostly
        first, *others = _by_slope(np.where((filled > 0) | everyone, left, 0), values, firth)
        return Again(sign * first[0], first[1], n, tuple(Again(sign * beta, error, n) for beta, error in others))
    return Again(float(sign * beta), error, n)


def _by_slope(left: Numbers, values: Numbers, log_odds: Numbers) -> list[tuple[float, float]]:
    """Where Firth's penalized likelihood of one effect falls again, uphill from no effect, and the standard errors there."""

    def weights(beta: float) -> tuple[Numbers, Numbers]:
        """The probabilities, and their variances."""
        chance = np.asarray(1 / (1 + np.exp(-(log_odds + beta * left))), np.float64)
        return chance, chance * (1 - chance)

    def slope(beta: float) -> float:
        """Of the penalized likelihood."""
        chance, variance = weights(beta)
        return float(left @ (values - chance) + left @ (left**2 * variance * (1 - 2 * chance)) / (2 * left**2 @ variance))

    step = float(np.copysign(_WALK / max(abs(left).max(), 1e-300), slope(0.0)))
    ahead = [slope(at * step) * step for at in range(_STEPS + 1)]
    ends = [sorted((at * step, (at + 1) * step)) for at in range(_STEPS) if ahead[at] > 0 >= ahead[at + 1]]
    found = [between(slope, (low, high), 1e-12 * abs(step)) for low, high in ends]
    return [(beta, float((left**2 @ weights(beta)[1]) ** -0.5)) for beta in found] or [(np.nan, np.nan)]


def _by_tails(left: Numbers, log_odds: Numbers, own: NDArray[np.bool_], score: float) -> float:
    """The normal deviate of both tails of a score together, with its sign."""
    from scipy.special import log_ndtr, ndtri_exp

    above, below = (log_ndtr(-abs(_deviate(left, log_odds, own, size))) for size in (abs(score), -abs(score)))
    return float(np.sign(score) * -ndtri_exp(np.logaddexp(above, below) - np.log(2)))


def _deviate(left: Numbers, log_odds: Numbers, own: NDArray[np.bool_], score: float) -> float:
    """The normal deviate of a score by the saddle point; who is not his `own` counts as normal."""
    p = np.exp(-np.logaddexp(0, -log_odds))
    numbers, odds, chances = left[own], log_odds[own], p[own]
    spread = float((left[~own] ** 2) @ (p[~own] * (1 - p[~own])))
    variance = float((left**2) @ (p * (1 - p)))

    def moved(t: float) -> Numbers:
        """The probabilities there."""
        return np.asarray(np.exp(-np.logaddexp(0, -odds - numbers * t)), np.float64)

    t = falling_root(lambda t: score - float(numbers @ (moved(t) - chances)) - t * spread, score / variance, 8 * variance**-0.5)
    if np.isnan(t):
        return float(np.copysign(np.inf, score))  # no trait could lie so far
    grown = np.logaddexp(0, odds + numbers * t) - np.logaddexp(0, odds)
    cumulant = float(grown.sum() - t * (numbers @ chances)) + t * t * spread / 2
    second = float((numbers**2) @ (moved(t) * (1 - moved(t)))) + spread
    w, v = np.sign(t) * np.sqrt(2 * (t * score - cumulant)), t * np.sqrt(second)
    return float(w + np.log(v / w) / w)
