"""One variant's effect on a time to an event computed again, from the times of events one after another. For an audit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.audit import Again, Numbers
from pipeline.kernels.roots import between

Places = NDArray[np.int64]
_TIED = 1e-7


class _Events(NamedTuple):
    """The times of d events, from the first on, and who stands where in the order of times."""

    order: Places
    """`int64[n]`: people from the earliest time to the latest."""
    first: Places
    """`int64[d]`: where the people begin, in this order, who are at risk at a time: all from there on."""
    deaths: Places
    """`int64[d]`."""
    had: Places
    """`int64[n]`: how many times of events there are up to a person's own."""

    @classmethod
    def of(cls, event: NDArray[np.bool_], time: Numbers) -> _Events:
        """From whether a person has the event, `bool[n]`, and when he was last seen, `float64[n]`."""
        times, deaths = np.unique(time[event], return_counts=True)
        order = np.argsort(time, kind="stable")
        return cls(order, np.searchsorted(time[order], times), deaths, np.searchsorted(times, time, side="right"))

    def at_risk(self, values: Numbers) -> Numbers:
        """Sums `float64[d]` of people's `values: float64[n]` over those at risk at each time."""
        sums: Numbers = np.cumsum(values[self.order][::-1])[::-1]
        return sums[self.first]

    def hazards(self, weights: Numbers) -> Numbers:
        """What the people of such weights were to have of events, `float64[n]`."""
        steps: Numbers = np.append(0.0, np.cumsum(self.deaths / self.at_risk(weights)))
        return weights * steps[self.had]


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
    events = _Events.of(event, time)
    hazards = events.hazards(np.exp(null))
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

    return _penalized(left, firth, (events, float(left[event].sum())), (beta, error), n)


def _penalized(left: Numbers, log_hazard: Numbers, of: tuple[_Events, float], near: tuple[float, float], n: int) -> Again:
    """Where the slope of the penalized likelihood is 0, near an estimate and its error; `of` has the sum over who has the event."""
    (events, sum_of_events), (beta, error) = of, near

    def moments(at: float) -> tuple[float, float]:
        """Slope of the log likelihood, and information."""
        tilted = np.exp(log_hazard + at * left)
        weights, mean, square = (events.at_risk(tilted * values) for values in (np.ones_like(left), left, left**2))
        mean, square = mean / weights, square / weights
        return sum_of_events - float(events.deaths @ mean), float(events.deaths @ (square - mean**2))

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
