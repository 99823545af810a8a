"""Level 1 of whole-genome regression: a trait by ridge regression on what all blocks predict of it, one chromosome left out at a time.

Mbatchou et al. 2021 (Nature Genetics 53:1097-1103), as regenie 4.1 does it: K predictors of mean 0 and variance 1, penalties K (1 - h) / h,
the h of the least mean squared error over the folds, and each fold's people predicted by the effects found without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, variant_blocks
from pipeline.kernels.ridge_predictors import SHARES
from pipeline.kernels.ridge_systems import ridge_effects


@dataclass(frozen=True)
class Stacked:
    """What cross-validation found of a trait, and its predictions; in the host's memory."""

    penalties: Array
    """`float64[h]`: those of level 1."""
    best: int
    """Place of the penalty with the least error, by log_loss or deviance where there is one."""
    predictions: Array
    """`float32[c + 1, n]`: without each of the chromosomes, and at the end with all; of the scaled trait, log odds or log hazards."""
    mean_squared_error: Array | None = None
    """`float64[h]`: of the scaled trait, or of cases' probability, over all people, each predicted by effects found without them."""
    r_squared: Array | None = None
    """`float64[h]`: the squared correlation of trait and prediction."""
    log_loss: Array | None = None
    """`float64[h]`, of a binary trait: the negative log likelihood a person."""
    deviance: Array | None = None
    """`float64[h]`, of a time to an event: the sum of the folds' deviances a person."""
    effects: Array | None = None
    """`float64[f, K]`: by what each fold's people were predicted at the chosen penalty; those of everyone where each was left out alone."""


def variant_weights(effects: Array, stacked: Array, first: int) -> Array:
    """Weights `float64[v]` of ALT of a block's variants, the mean of the folds'; in the host's memory.

    `effects: float32[f, h, v]` are those of level 0 on the block's predictors, the first of which is number `first` of level 1's, whose
    effects are `stacked: float64[f, K]`.
    """
    of_block = stacked[:, first : first + effects.shape[1]]
    weights: Array = np.einsum("fh,fhv->v", of_block, effects.astype(np.float64)) / len(of_block)
    return weights


def stacked_ridge(predictors: Array, chromosomes: Sequence[int], trait: Array, folds: Sequence[slice]) -> Stacked:
    """From predictors `float32[K, n]`, the chromosome 0 .. c - 1 of each, ascending, and the scaled trait `float64[n]`."""
    xp = array_module(predictors)
    trait, count = xp.asarray(trait), len(predictors)
    sums = [_sums(predictors, trait, fold) for fold in folds]
    gram, right = (sum(parts[1:], start=parts[0]) for parts in zip(*sums, strict=True))
    penalties = [count * (1 - share) / share for share in SHARES]
    effects = [ridge_effects(gram - own, right - one, penalties)[:, :, 0] for own, one in sums]  # per fold [h, K]
    del sums
    found = xp.empty((len(SHARES), predictors.shape[1]))
    for fold, some in zip(folds, effects, strict=True):
        for people in chunks_of(predictors, fold):
            found[:, people] = some @ predictors[:, people].astype(xp.float64)
    error = ((trait - found) ** 2).mean(axis=1)
    best = int(error.argmin())
    starts = [chromosomes.index(place) for place in range(chromosomes[-1] + 1)] + [count]
    predictions = xp.empty((len(starts), predictors.shape[1]), xp.float32)
    for fold, some in zip(folds, effects, strict=True):
        for people in chunks_of(predictors, fold):
            weighted = some[best][:, None] * predictors[:, people]
            for place, (low, high) in enumerate(pairwise(starts)):
                predictions[place, people] = found[best, people] - weighted[low:high].sum(axis=0)
    predictions[-1] = found[best]
    chosen = to_host(xp.stack([some[best] for some in effects]))
    r_squared = to_host(squared_correlations(found, trait))
    return Stacked(np.array(penalties), best, to_host(predictions), to_host(error), r_squared, effects=chosen)


def _sums(predictors: Array, trait: Array, fold: slice) -> tuple[Array, Array]:
    """X'X `float64[K, K]` and X'y `float64[K, 1]` of a fold's people."""
    xp = array_module(predictors)
    gram, right = xp.zeros((len(predictors), len(predictors))), xp.zeros((len(predictors), 1))
    for people in chunks_of(predictors, fold):
        values = predictors[:, people].astype(xp.float64)  # those of a block are near one another: float32 would lose what they differ by
        gram += values @ values.T
        right[:, 0] += values @ trait[people]
    return gram, right


def chunks_of(predictors: Array, fold: slice) -> list[slice]:
    """The people of a fold, so many at a time that eight bytes for each of their predictors are a block."""
    rows = variant_blocks(fold.stop - fold.start, 8 * len(predictors), block_bytes(predictors, BLOCK_BYTES))
    return [slice(fold.start + some.start, fold.start + some.stop) for some in rows]


def squared_correlations(found: Array, trait: Array) -> Array:
    """Squared correlation of each row of `found` with the trait; 0 where it is the same for everyone."""
    xp = array_module(found)
    found, trait = found - found.mean(axis=1, keepdims=True), trait - trait.mean()
    whole = (found**2).sum(axis=1) * (trait**2).sum()
    return xp.where(whole > 0, (found @ trait) ** 2 / xp.where(whole > 0, whole, 1), 0.0)
