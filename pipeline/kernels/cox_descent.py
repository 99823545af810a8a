"""Cox's ridge regression by coordinate descent, for level 1 of whole-genome regression of times to an event.

Partial likelihood with Breslow's ties, over the number of people; cyclic coordinate descent on its quadratic approximation, which is made
anew after each cycle (Simon et al. 2011, J Stat Softw 39(5)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotypes import Array

_STILL = 2.5e-4
_CYCLES, _HALVINGS = 100, 100
_TOGETHER = 32
"""Coordinates whose products with one another are worked out at once: their updates then need no pass over people each."""


@dataclass(frozen=True)
class TimesOrder:
    """Some of the people, m of them, from the earliest time to the latest; arrays beside the predictors."""

    order: Array
    """`int64[m]`: their places."""
    event: Array
    """`float64[m]`: 1 for an event, 0 for a censored time."""
    first: Array
    """`int64[d]`: of each distinct time with an event, the place of the first person who is seen as long."""
    share: Array
    """`float64[d]`: its events, over m."""
    passed: Array
    """`int64[m]`: how many of these times a person has come to."""

    @classmethod
    def of(cls, signed: Array, people: Array, xp: Any) -> TimesOrder:
        """From signed times `float64[n]` (minus where censored) and places of people."""
        own = signed[people]
        by_time = np.argsort(np.abs(own), kind="stable")
        times, event = np.abs(own)[by_time], ~np.signbit(own)[by_time]
        ends, counts = np.unique(times[event], return_counts=True)
        arrays = (event.astype(float), np.searchsorted(times, ends), counts / len(people), np.searchsorted(ends, times, side="right"))
        return cls(*(xp.asarray(array) for array in (people[by_time], *arrays)))

    def deviance(self, log_hazard: Array) -> float:
        """Twice what the log likelihood is below that of a model with a parameter an event time, over m."""
        xp = array_module(log_hazard)
        top = log_hazard.max()
        sums = xp.cumsum(xp.exp(log_hazard - top)[::-1])[::-1][self.first] / len(log_hazard)
        found = (log_hazard * self.event).mean() - (self.share * (xp.log(sums) + top)).sum()
        return float(2 * (-(self.share * xp.log(self.share)).sum() - found))

    def slopes(self, log_hazard: Array) -> tuple[Array, Array]:
        """The log likelihood's slope by each person's log hazard, and minus its second derivative by that alone, `float64[m]`."""
        xp, m = array_module(log_hazard), len(log_hazard)
        weights = xp.exp(log_hazard - log_hazard.mean()) / m
        sums = xp.cumsum(weights[::-1])[::-1][self.first]
        none = xp.zeros(1)
        once, twice = (xp.concatenate([none, xp.cumsum(self.share / sums**power)])[self.passed] for power in (1, 2))
        return self.event / m - weights * once, weights * once - weights**2 * twice


class CoxFold(NamedTuple):
    """People whom effects are fitted to: predictors `float32[K, m]` and log hazards `float64[m]` beside them, in the order of `times`."""

    times: TimesOrder
    predictors: Array
    offset: Array

    @classmethod
    def of(cls, predictors: Array, signed: Array, offset: Array, people: Array) -> CoxFold:
        """Of `people`, places in `int64[m]`, from what all n people have."""
        times = TimesOrder.of(signed, people, array_module(predictors))
        return cls(times, predictors[:, times.order], offset[times.order])


def cox_offset(basis: Array, signed: Array) -> Array:
    """Log hazards `float64[n]` that covariates predict, `basis` being `float64[n, k]`; near the greatest likelihood, as in regenie."""
    if not basis.shape[1]:
        return np.zeros(len(signed))
    fold = CoxFold.of(basis.T, signed, np.zeros(len(signed)), np.arange(len(signed)))
    return np.asarray(basis @ descended(fold, 0.0, np.zeros(basis.shape[1]), _STILL))


def descended(fold: CoxFold, penalty: float, start: Array, still: float) -> Array:
    """Effects `float64[K]`, in the host's memory, from those at another penalty.

    Cycles end where one changes deviance and penalty by less than `still` of them, or where no slope is as great; the first is compared
    with the deviance of no effects.
    """
    effects = start.copy()
    log_hazard = _log_hazard(fold, effects)
    deviance = fold.times.deviance(fold.offset)
    objective = deviance + penalty / 2 * float(effects @ effects)
    for _ in range(_CYCLES):
        before, last = effects.copy(), objective
        log_hazard, scores = _cycled(fold, penalty, effects, log_hazard)
        after = fold.times.deviance(log_hazard)
        for _ in range(_HALVINGS):
            if after - deviance <= still:
                break
            effects = (effects + before) / 2
            log_hazard = _log_hazard(fold, effects)
            after = fold.times.deviance(log_hazard)
        deviance, objective = after, after + penalty / 2 * float(effects @ effects)
        if abs(objective - last) < still * (0.1 + abs(objective)) or abs(scores - penalty * effects).max() < still:
            break
    return effects


def _log_hazard(fold: CoxFold, effects: Array) -> Array:
    xp, found = array_module(fold.predictors), fold.offset
    for low in range(0, len(effects), _TOGETHER):
        some = slice(low, low + _TOGETHER)
        found = found + xp.asarray(effects[some]) @ fold.predictors[some].astype(xp.float64)
    return found


def _cycled(fold: CoxFold, penalty: float, effects: Array, log_hazard: Array) -> tuple[Array, Array]:
    """One cycle, which writes `effects`: the log hazards after it, and the slopes `float64[K]` before it."""
    xp = array_module(fold.predictors)
    slope, curvature = fold.times.slopes(log_hazard)
    rest, scores = slope, np.empty(len(effects))
    for low in range(0, len(effects), _TOGETHER):
        some = slice(low, low + _TOGETHER)
        values = fold.predictors[some].astype(xp.float64)
        products = to_host(values @ xp.concatenate([(values * curvature).T, rest[:, None], slope[:, None]], axis=1))
        scores[some] = products[:, -1]
        found = _coordinates(products[:, :-2], products[:, -2], effects[some], penalty)
        change = xp.asarray(found - effects[some]) @ values
        effects[some] = found
        log_hazard, rest = log_hazard + change, rest - curvature * change
    return log_hazard, scores


def _coordinates(gram: Array, slopes: Array, effects: Array, penalty: float) -> Array:
    """Effects after each in turn is put where the approximation is least: weighted products `float64[b, b]`, slopes `float64[b]`."""
    effects, slopes = effects.copy(), slopes.copy()
    for place, row in enumerate(gram):
        least = (slopes[place] + effects[place] * row[place]) / (row[place] + penalty)
        slopes -= row * (least - effects[place])
        effects[place] = least
    return effects
