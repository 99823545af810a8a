"""Level 1 of whole-genome regression for a binary trait: penalized logistic regression on what all blocks predict, covariates as offset.

Mbatchou et al. 2021 (Nature Genetics 53:1097-1103), as regenie 4.1 does it: as `stacked_ridge`, the penalty times 3 / pi^2 (the logistic
distribution's variance is pi^2 / 3), the h of the greatest likelihood of people who are predicted by effects found without them: those of
a fold by a fit to the others, or each person by one step of Newton's method from the fit to all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg, to_host
from pipeline.kernels.genotypes import Array
from pipeline.kernels.ridge_predictors import SHARES
from pipeline.kernels.stacked_ridge import Stacked, chunks_of, squared_correlations

_STEPS, _HALVINGS = 100, 30
_CONVERGED = 1e-12
"""Of log likelihood a person that a last step promises."""


class _Binary(NamedTuple):
    """Predictors `float32[K, n]`, cases `float64[n]` of 1 and 0, and log odds by covariates `float64[n]`."""

    predictors: Array
    cases: Array
    offset: Array


def stacked_logistic(
    predictors: Array, chromosomes: Sequence[int], cases: Array, offset: Array, folds: Sequence[slice] | None = None
) -> Stacked:
    """From predictors `float32[K, n]`, the chromosome 0 .. c - 1 of each, ascending, cases and log odds by covariates `float64[n]`.

    Without `folds` each person is left out alone. Predictions are log odds without the offset.
    """
    xp = array_module(predictors)
    data = _Binary(predictors, xp.asarray(cases), xp.asarray(offset))
    penalties = [len(predictors) * (1 - share) / share * 3 / math.pi**2 for share in SHARES]
    everyone = slice(0, predictors.shape[1])
    kept = [[everyone]] if folds is None else [[slice(0, fold.start), slice(fold.stop, everyone.stop)] for fold in folds]
    effects = [_path(data, people, penalties) for people in kept]  # by fold, then by penalty
    found = xp.stack([_left_out(data, [own[place] for own in effects], penalty, folds)[-1] for place, penalty in enumerate(penalties)])
    log_odds = found + data.offset
    loss = xp.logaddexp(0, xp.where(data.cases > 0, -log_odds, log_odds)).mean(axis=1)
    best, probability = int(loss.argmin()), 1 / (1 + xp.exp(-log_odds))
    starts = [*(chromosomes.index(place) for place in range(chromosomes[-1] + 1)), len(predictors)]
    by_chromosome = _left_out(data, [own[best] for own in effects], penalties[best], folds, starts)
    predictions = xp.concatenate([by_chromosome[-1] - by_chromosome[:-1], by_chromosome[-1:]]).astype(xp.float32)
    error, r_squared = ((data.cases - probability) ** 2).mean(axis=1), squared_correlations(probability, data.cases)
    chosen = to_host(xp.stack([own[best] for own in effects]))
    return Stacked(np.array(penalties), best, to_host(predictions), to_host(error), to_host(r_squared), to_host(loss), effects=chosen)


def _path(data: _Binary, people: Sequence[slice], penalties: Sequence[float]) -> list[Array]:
    """The effects `float64[K]` at each penalty, by Newton's method from those at the one before."""
    xp = array_module(data.predictors)
    found, effects = list[Array](), xp.zeros(len(data.predictors))
    for penalty in penalties:
        effects = _fit(data, people, penalty, effects)
        found.append(effects)
    return found


def _fit(data: _Binary, people: Sequence[slice], penalty: float, effects: Array) -> Array:
    """The effects of greatest penalized likelihood; a step that lowers it is halved."""
    value, gradient, information = _terms(data, people, penalty, effects)
    most = _CONVERGED * data.predictors.shape[1]
    for _ in range(_STEPS):
        step = _solve(information, gradient)
        promised = float(gradient @ step)
        if promised <= most:
            break
        for _ in range(_HALVINGS):
            after = _terms(data, people, penalty, effects + step)
            if after[0] >= value - most:
                break
            step = step / 2
        effects, (value, gradient, information) = effects + step, after
    return effects


def _terms(data: _Binary, people: Sequence[slice], penalty: float, effects: Array) -> tuple[float, Array, Array]:
    """Penalized log likelihood, its gradient `float64[K]` and the negative of its second derivatives `float64[K, K]`."""
    xp = array_module(data.predictors)
    value, gradient, information = -penalty / 2 * float(effects @ effects), -penalty * effects, penalty * xp.eye(len(effects))
    for some in (chunk for slices in people for chunk in chunks_of(data.predictors, slices)):
        values = data.predictors[:, some].astype(xp.float64)
        log_odds, cases = data.offset[some] + effects @ values, data.cases[some]
        probability = 1 / (1 + xp.exp(-log_odds))
        value -= float(xp.logaddexp(0, xp.where(cases > 0, -log_odds, log_odds)).sum())
        gradient = gradient + values @ (cases - probability)
        information += (values * (probability * (1 - probability))) @ values.T
    return value, gradient, information


def _solve(matrix: Array, right: Array) -> Array:
    xp = array_module(matrix)
    with checked_linalg(xp):
        return xp.linalg.solve(matrix, right)


def _left_out(
    data: _Binary, effects: Sequence[Array], penalty: float, folds: Sequence[slice] | None, starts: Sequence[int] | None = None
) -> Array:
    """`float64[c + 1, n]`: log odds by each of the stretches of predictors that begin at `starts`, of those left out, and by all."""
    xp, count = array_module(data.predictors), len(data.predictors)
    stretches = list(pairwise(starts or [0, count]))
    found = xp.empty((len(stretches) + 1, data.predictors.shape[1]))
    for place, fold in enumerate(folds or [slice(0, data.predictors.shape[1])]):
        information = None if folds else _terms(data, [fold], penalty, effects[place])[2]
        for people in chunks_of(data.predictors, fold):
            values = data.predictors[:, people].astype(xp.float64)
            weighted = effects[place][:, None] * values
            if information is not None:
                moved = _solve(information, values) * values
                own, probability = moved.sum(axis=0), 1 / (1 + xp.exp(-(data.offset[people] + weighted.sum(axis=0))))
                weighted -= moved * (data.cases[people] - probability) / (1 - probability * (1 - probability) * own)
            for row, (low, high) in enumerate(stretches):
                found[row, people] = weighted[low:high].sum(axis=0)
    found[-1] = found[:-1].sum(axis=0)
    return found
