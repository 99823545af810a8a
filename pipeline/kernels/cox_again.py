"""One variant's effect on a time to an event computed again, the slow way: a loop over the times of events. For an audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.audit import Again, Numbers
from pipeline.kernels.roots import between

_TIED = 1e-7


def cox_again(genotype: Numbers, covariates: Numbers, times: Numbers, log_hazards: tuple[Numbers, Numbers], test: str) -> Again:
    """The effect `[n]` on signed times (minus: censored; NaN: missing) with fixed log hazards, by maximum likelihood and by Firth's fit.

    score: one step; firth_approximate: where the penalized likelihood of the one effect is greatest, by Brent's method on its slope, which
    is taken by differences. A missing genotype is the mean of those with all covariates.
    """
    used = ~np.isnan(covariates).any(axis=1)
    own, called = used & ~np.isnan(times), used & ~np.isnan(genotype)
    n = int((own & called).sum())
    if not called.any():
        return Again(np.nan, np.nan, n)
    filled = np.where(called, genotype, genotype[called].mean())[own]
    null, firth = (log_hazard[own] for log_hazard in log_hazards)
    event, time = ~np.signbit(times[own]), np.abs(times[own])
    sets = [(time >= at, int((event & (time == at)).sum())) for at in np.unique(time[event])]
    weights = np.exp(null)
    hazards = weights * np.sum([at_risk * deaths / weights[at_risk].sum() for at_risk, deaths in sets], axis=0)
    varied = np.ptp(covariates[own], axis=0) > 0
    columns = np.column_stack([np.ones(len(filled)), covariates[own][:, varied]])
    roots = np.sqrt(hazards)
    left = filled - columns @ np.linalg.lstsq(columns * roots[:, None], filled * roots, rcond=None)[0]
    residuals = event - hazards
    information = float(left @ left * residuals.var(ddof=1))
    if float(left @ left) <= _TIED * float(((filled - filled.mean()) ** 2).sum()):
        return Again(np.nan, np.nan, n)
    beta, error = float(left @ residuals) / information, information**-0.5
    if test == "score":
        return Again(beta, error, n)

    return _penalized(left, firth, (event, sets), (beta, error), n)


def _penalized(
    left: Numbers,
    log_hazard: Numbers,
    events: tuple[NDArray[np.bool_], list[tuple[NDArray[np.bool_], int]]],
    near: tuple[float, float],
    n: int,
) -> Again:
    """Where the slope of the penalized likelihood is 0, near an estimate and its standard error."""
    (event, sets), (beta, error) = events, near

    def moments(at: float) -> tuple[float, float]:
        """Slope of the log likelihood, and information."""
        slope, spread, tilted = float(left[event].sum()), 0.0, np.exp(log_hazard + at * left)
        for at_risk, deaths in sets:
            share = tilted[at_risk] / tilted[at_risk].sum()
            mean = float(share @ left[at_risk])
            slope -= deaths * mean
            spread += deaths * float(share @ (left[at_risk] - mean) ** 2)
        return slope, spread

    def slope(at: float) -> float:
        """Of the penalized log likelihood."""
        small = 1e-4 * error
        return moments(at)[0] + float(np.log(moments(at + small)[1] / moments(at - small)[1])) / (4 * small)

    low, high = beta - error, beta + error
    for _ in range(20):
        if slope(low) > 0 > slope(high):
            break
        low, high = low - error, high + error
    else:
        return Again(np.nan, np.nan, n)
    found = between(slope, (low, high), 1e-9)
    return Again(found, moments(found)[1] ** -0.5, n)
