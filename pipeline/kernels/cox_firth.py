"""Firth's likelihood ratio for one effect on a time to an event, with all else fixed.

A person's log hazard is o + a beta: o is fixed (covariates, and predictions of a whole-genome regression), and a is the genotype less what
the covariates explain of it. The penalized log partial likelihood is l(beta) + log(I(beta)) / 2, I the information, ties by Breslow
(Heinze & Schemper 2001, Biometrics 57:114-119; approximate as in Mbatchou et al. 2021). Its slope and curve are sums over events of the
central moments of a in their risk sets, weighted by e^(o + a beta): these are differences of cumulative sums of people by time.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.backend.arrays import array_module
from pipeline.kernels.adjusted_tests import Effect, guarded_newton, longest_steps
from pipeline.kernels.cox_null import RiskOrder
from pipeline.kernels.genotypes import Array

_LEAST = 1e-200


class _Sums(NamedTuple):
    """Over events, `float64[v]`: log likelihood less that of o, its slope, and second, third and fourth cumulants of a in the risk sets."""

    gain: Array
    slope: Array
    second: Array
    third: Array
    fourth: Array


def cox_likelihood_ratio(adjusted: Array, log_hazard: Array, risk: RiskOrder, start: Array) -> Effect:
    """Firth's estimates of `adjusted: float64[v, n]` about `log_hazard: float64[n]` of the same people, in the order of risk.

    Newton's method from `start: float64[v]`, or a longest step from no effect, kept between what is known too low and too high.
    """
    xp = array_module(adjusted)

    def step(beta: Array) -> tuple[Array, Array]:
        """Newton's on the penalized likelihood, or by the information alone where that is not curved as a maximum is."""
        sums = _sums(adjusted, log_hazard, risk, beta)
        second = xp.maximum(sums.second, _LEAST)
        third, fourth = sums.third / second, sums.fourth / second
        slope, curve = sums.slope + third / 2, second - (fourth - third**2) / 2
        moved = slope / xp.where(curve > 0, curve, second)
        return moved, abs(moved) * xp.sqrt(second)

    farthest = longest_steps(adjusted)
    beta, still = guarded_newton(step, xp.clip(start, -farthest, farthest), farthest)
    here, none = (_sums(adjusted, log_hazard, risk, at) for at in (beta, xp.zeros(len(beta))))
    information, before = (xp.maximum(sums.second, _LEAST) for sums in (here, none))
    chi_square = xp.maximum(2 * (here.gain - none.gain) + xp.log(information / before), 0)
    found = still & (adjusted != 0).any(axis=1)
    return Effect(*(xp.where(found, values, xp.nan) for values in (beta, information**-0.5, chi_square)))


def _sums(adjusted: Array, log_hazard: Array, risk: RiskOrder, beta: Array) -> _Sums:
    xp = array_module(adjusted)
    moved = beta[:, None] * adjusted
    top = (log_hazard + moved).max(axis=1)
    weighted = xp.exp(log_hazard + moved - top[:, None])
    sums = [xp.cumsum(weighted, axis=1)[:, risk.last]]
    for _ in range(4):
        weighted *= adjusted
        sums.append(xp.cumsum(weighted, axis=1)[:, risk.last] / sums[0])
    whole, m, m2, m3, m4 = sums
    second = m2 - m**2
    third = m3 - 3 * m * m2 + 2 * m**3
    fourth = m4 - 4 * m * m3 - 3 * m2**2 + 12 * m**2 * m2 - 6 * m**4
    gain = moved[:, risk.event].sum(axis=1) - xp.log(whole).sum(axis=1) - top * len(risk.last)
    return _Sums(gain, (adjusted[:, risk.event] - m).sum(axis=1), *(values.sum(axis=1) for values in (second, third, fourth)))
