"""Level 1 of whole-genome regression for a time to an event: Cox's ridge regression on what all blocks predict, covariates as offset.

Of five penalties the first is that at which no predictor's slope is more than a thousandth of it, each next one less by a factor of 10^1.5,
and effects begin at those of the one before. The penalty of the least deviance is chosen: of the people of each fold by effects found
without them. As regenie 4.1 does it, whose descent stops where a cycle changes deviance and penalty by less than a ten-thousandth: short of
the least there is at small penalties. Its predictions are those of where it stops, and so are these.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.cox_descent import CoxFold, TimesOrder, descended
from pipeline.kernels.genotypes import Array
from pipeline.kernels.stacked_ridge import Stacked, chunks_of

PENALTIES = 5
_GREATEST, _LESS = 1e-3, 10**-1.5
_STILL = 1e-4


def stacked_cox(predictors: Array, chromosomes: Sequence[int], signed: Array, offset: Array, folds: Sequence[slice]) -> Stacked:
    """From predictors `float32[K, n]`, the chromosome 0 .. c - 1 of each, ascending, times and log hazards by covariates `float64[n]`.

    Times are minus where censored. Predictions are log hazards without the offset.
    """
    xp, everyone = array_module(predictors), np.arange(len(signed))
    given = xp.asarray(offset)
    whole = TimesOrder.of(signed, everyone, xp)
    slope = xp.empty(len(signed))
    slope[whole.order] = whole.slopes(given[whole.order])[0]
    scores = sum(predictors[:, some].astype(xp.float64) @ slope[some] for some in chunks_of(predictors, slice(0, len(signed))))
    greatest = float(abs(scores).max())
    penalties = greatest / _GREATEST * _LESS ** np.arange(PENALTIES)
    deviance, effects = np.zeros(PENALTIES), list[list[Array]]()
    for out in folds:
        fold = CoxFold.of(predictors, signed, given, np.delete(everyone, out))
        held, path = TimesOrder.of(signed, everyone[out], xp), list[Array]()
        for place, penalty in enumerate(penalties):
            path.append(descended(fold, float(penalty), path[-1] if path else np.zeros(len(predictors)), _STILL))
            log_hazard = given[out] + _predicted(predictors, path[-1], out, [0, len(predictors)])[0]
            deviance[place] += held.deviance(log_hazard[held.order - out.start])
        effects.append(path)
    best = int(deviance.argmin())
    starts = [*(chromosomes.index(place) for place in range(chromosomes[-1] + 1)), len(predictors)]
    by_chromosome = xp.concatenate(
        [_predicted(predictors, own[best], out, starts) for own, out in zip(effects, folds, strict=True)], axis=1
    )
    total = by_chromosome.sum(axis=0)
    predictions = xp.concatenate([total - by_chromosome, total[None]]).astype(xp.float32)
    chosen = np.stack([to_host(own[best]) for own in effects])
    return Stacked(penalties, best, to_host(predictions), deviance=deviance, effects=chosen)


def _predicted(predictors: Array, effects: Array, people: slice, starts: Sequence[int]) -> Array:
    """`float64[c, people of the slice]`: log hazards by each of the stretches of predictors that begin at `starts`, whose last is K."""
    xp = array_module(predictors)
    given = xp.asarray(effects)
    found = xp.empty((len(starts) - 1, people.stop - people.start))
    for some in chunks_of(predictors, people):
        for place, (low, high) in enumerate(pairwise(starts)):
            found[place, some.start - people.start : some.stop - people.start] = given[low:high] @ predictors[low:high, some]
    return found
