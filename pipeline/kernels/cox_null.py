"""A Cox model of covariates alone: coefficients by maximum partial likelihood or by Firth's penalized one, hazards and residuals.

Cox 1972 (J R Stat Soc B 34:187-220), ties by Breslow (1974, Biometrics 30:89-99): all who end at one time share the risk set of it. A time
is signed: minus it where the person was only seen so far (censored). With w = e^(log hazard), S0 the sum of w over a risk set, and
Lambda(t) the sum of 1 / S0 over events up to t, a person's hazard is H = w Lambda(his time) and his martingale residual M = event - H
(Therneau, Grambsch & Fleming 1990, Biometrika 77:147-160). Firth's penalty is half the log determinant of the information
(Heinze & Schemper 2001, Biometrics 57:114-119).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.errors import DataError
from pipeline.kernels.genotypes import Array

_STEPS, _HALVINGS = 60, 30
_STILL = 1e-10
_FLAT = 1e-10
"""Of the information there was at first, what must be left in every direction."""


@dataclass(frozen=True)
class RiskOrder:
    """n people from the latest to the earliest time, so that a risk set is a first stretch of them."""

    order: Array
    """`int64[n]`: places of the people."""
    last: Array
    """`int64[d]`: of each event the place, in this order, of the last of its risk set."""
    event: Array
    """`int64[d]`: of each event the place of whose it is, in this order."""

    @classmethod
    def of(cls, signed: Array) -> RiskOrder:
        """From signed times `float64[n]`."""
        times = np.abs(signed)
        order = np.argsort(-times, kind="stable")
        later = -times[order]
        event = np.flatnonzero(~np.signbit(signed[order]))
        return cls(order, np.searchsorted(later, later[event], side="right") - 1, event)

    def hazards(self, log_hazard: Array) -> Array:
        """H `float64[n]`, in the order of the people."""
        weights = np.exp(log_hazard[self.order])
        share = np.bincount(self.last, 1 / np.cumsum(weights)[self.last], minlength=len(weights))
        found = np.empty(len(weights))
        # An event counts for all who end at its time or later, and these stand up to the last of its risk set.
        found[self.order] = weights * np.cumsum(share[::-1])[::-1]
        return found


@dataclass(frozen=True)
class _Terms:
    value: float
    slope: Array
    information: Array
    penalty: Array
    """`float64[k]`: the slope of half the log determinant."""


def cox_coefficients(name: str, covariates: Array, risk: RiskOrder, offset: Array, *, firth: bool) -> Array:
    """Coefficients `float64[k]` of covariates `float64[k, n]` beside log hazards `float64[n]` that are given.

    Raises DataError, which names the trait, where the likelihood has no maximum.
    """
    at = np.zeros(len(covariates))
    if not len(covariates):
        return at
    values, given = covariates[:, risk.order], offset[risk.order]
    here = _terms(values, given, risk, at, firth=firth)
    first = np.linalg.cholesky(here.information)
    for _ in range(_STEPS):
        slope = here.slope + here.penalty
        whitened = np.linalg.solve(first, np.linalg.solve(first, here.information).T)
        if np.linalg.eigvalsh(whitened)[0] < _FLAT:
            break
        step = np.linalg.solve(here.information, slope)
        if float(slope @ step) <= _STILL**2 * risk.event.size:
            return at
        for _ in range(_HALVINGS):
            after = _terms(values, given, risk, at + step, firth=firth)
            if after.value >= here.value - 1e-12 * abs(here.value):
                break
            step = step / 2
        at, here = at + step, after
    raise DataError(
        f"Trait {name!r}: the Cox model of the covariates has no maximum. Does a covariate tell all people with an event from the others? "
        "Leave it out."
    )


def _terms(values: Array, given: Array, risk: RiskOrder, at: Array, *, firth: bool) -> _Terms:
    """Of people in the order of risk: log likelihood (penalized), its slope and information at coefficients."""
    log_hazard = given + at @ values
    top = log_hazard.max()
    weights = np.exp(log_hazard - top)
    sums = np.cumsum(weights)[risk.last]
    means = np.cumsum(weights * values, axis=1)[:, risk.last] / sums
    share = np.bincount(risk.last, 1 / sums, minlength=len(weights))
    hazards = weights * np.cumsum(share[::-1])[::-1]
    value = float(log_hazard[risk.event].sum() - np.log(sums).sum() - top * len(sums))
    slope = values[:, risk.event].sum(axis=1) - values @ hazards
    information = (values * hazards) @ values.T - means @ means.T
    if not firth:
        return _Terms(value, slope, information, np.zeros(len(at)))
    root = np.linalg.inv(np.linalg.cholesky(information))
    white, white_means = root @ values, root @ means
    squares = (white**2).sum(axis=0)
    centred = (squares * hazards) @ values.T - means @ (np.cumsum(weights * squares)[risk.last] / sums)
    for own, mean in zip(white, white_means, strict=True):
        centred -= 2 * (np.cumsum(weights * own * values, axis=1)[:, risk.last] / sums) @ mean
    centred += 2 * means @ (white_means**2).sum(axis=0)
    return _Terms(value + float(np.linalg.slogdet(information)[1]) / 2, slope, information, centred / 2)
