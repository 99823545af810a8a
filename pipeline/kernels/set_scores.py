"""Genotypes of a set of variants: burden masks of them, and the score statistics that tests of the set are made of.

Counts of ALT are `int8[v, n]`, or floats of dosages and sums, and -1 where missing: what is tested gets the mean of those used there. On a
CPU what few people carry is multiplied as the few numbers that it is.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array, unpack
from pipeline.kernels.predicted_binary_design import PredictedBinary
from pipeline.kernels.predicted_scan import PredictedDesign

Burden = Literal["max", "sum", "comphet"]

_NOTHING = 1e-9  # a sum of squares that is rounding
_DENSE = 0.5  # of all people of the genotypes
_RARE = 0.1  # of all counts


def alt_counts(block: GenotypeBlock) -> Array:
    """Copies of ALT, `int8[v, n]`, or `float32[v, n]` of dosages; -1 where missing."""
    if block.dosages is None:
        return unpack(block.calls, block.n_samples, np.int8, -1)
    return block.xp.where(block.xp.isnan(block.dosages), -1, block.dosages)


def alt_totals(counts: Array, used: Array) -> tuple[Array, Array]:
    """Of the people `used: bool[n]`: copies of ALT `float64[v]`, and people with a call, `int64[v]`. On the host."""
    xp = array_module(counts)
    if (rare := _rare(counts)) is not None:
        variant, person, value = rare
        missing, own = value < 0, used[person]
        totals = np.bincount(variant, np.where(missing | ~own, 0, value), len(counts))
        return totals, int(used.sum()) - np.bincount(variant[missing & own], minlength=len(counts))
    there = (counts >= 0) & used
    totals = xp.where(there, counts, 0).sum(axis=1, dtype=xp.float64)
    return to_host(totals), to_host(there.sum(axis=1))


def burden_masks(counts: Array, members: Any, burden: Burden = "max") -> Array:
    """Burden of each mask, `[k, n]`, of variants `members: bool[k, v]` (on the host; one variant a mask at least).

    `max`: the greatest count of its variants; `sum`: all counts; `comphet`: these, at most 2. A missing call counts nothing; -1 where all
    are missing. Of sums `float32`, else the counts' type.
    """
    xp = array_module(counts)
    found = xp.empty((len(members), counts.shape[1]), counts.dtype if burden == "max" else xp.float32)
    for mask, own in zip(found, members, strict=True):
        some = counts[xp.asarray(np.flatnonzero(own))]
        greatest = some.max(axis=0)
        mask[:] = greatest if burden == "max" else xp.maximum(some, 0).sum(axis=0, dtype=xp.float32)
        if burden == "comphet":
            mask[:] = xp.minimum(mask, 2)
        mask[greatest < 0] = -1
    return found


def set_scores(counts: Array, design: PredictedDesign) -> tuple[Array, Array]:
    """Scores `float64[v, t]` in units of the traits' standard deviations, and their covariance `float64[v, v]`, on the host.

    The covariance is over everybody used, also where some of them lack a trait, as in regenie.
    """
    xp = array_module(counts)
    design = design.beside(counts)
    columns = xp.concatenate([design.basis, design.residuals], axis=1)
    if (rare := _rare(counts)) is not None:
        rows = _sparse_rows(*rare, counts.shape, design)
        products, squares = rows @ columns, (rows @ rows.T).toarray()
    else:
        dense = _imputed(counts, design)
        products, squares = dense @ columns, dense @ dense.T
    explained = products[:, : design.basis.shape[1]]
    scores = products[:, design.basis.shape[1] :] - explained @ (design.basis.T @ design.residuals)
    return to_host(scores / _deviations(xp, design)), to_host(squares - explained @ explained.T)


def binary_set_scores(counts: Array, models: PredictedBinary) -> tuple[Array, Array]:
    """Scores `float64[v, t]` of binary traits, and their covariances `float64[t, v, v]`, without what covariates explain; on the host."""
    xp = array_module(counts)
    models = models.beside(counts)
    rare, chances = _rare(counts), models.probabilities()
    rows = _imputed(counts, models) if rare is None else _sparse_rows(*rare, counts.shape, models)
    scores = xp.asarray(rows @ (models.design.cases - chances.T))
    covariances = []
    for trait, chance in enumerate(chances):
        weights = chance * (1 - chance)
        explained = rows @ (models.whitened[trait] * weights).T
        if rare is None:
            squares = (rows * weights) @ rows.T
        else:
            weighted = rows.copy()
            weighted.data = rows.data * weights[rows.indices]
            squares = (weighted @ rows.T).toarray()
        covariances.append(squares - explained @ explained.T)
    return to_host(scores), to_host(xp.stack(covariances))


def weighted_burdens(counts: Array, weights: Any, design: PredictedDesign | PredictedBinary) -> Array:
    """Weighted means of variants' counts, `float32[k, n]`, by `weights: float64[k, v]` (on the host); a missing count is the mean.

    Of a variant whose weight is below 0 it is REF that is counted, by the weight's size.
    """
    xp = array_module(counts)
    design, rare = design.beside(counts), _rare(counts)
    shares = xp.asarray(np.asarray(weights) / np.abs(weights).sum(axis=1, keepdims=True))
    rows = _imputed(counts, design) if rare is None else _sparse_rows(*rare, counts.shape, design)
    return (xp.asarray(shares @ rows) - 2 * xp.minimum(shares, 0).sum(axis=1)[:, None]).astype(xp.float32)


def joint_products(masks: Array, design: PredictedDesign, traits: Any) -> tuple[Array, Array]:
    """What a joint fit of masks `[k, n]` needs for `traits` (places) that the same people have: A `[k, k]` and scores `[k, s]`.

    As in regenie, covariates are taken off only of masks that half of all people or more carry, which then have a variance of 1; of rarer
    ones they are left in, which makes the test a little conservative. Scales matter to which of masks that explain one another are kept.
    """
    xp = array_module(masks)
    design = design.beside(masks)
    dense = _imputed(masks, design)
    common = (dense > 0).sum(axis=1) >= _DENSE * dense.shape[1]
    left = xp.where(common[:, None], dense - (dense @ design.basis) @ design.basis.T, dense) * design.known[:, int(traits[0])]
    freedom = design.used - design.basis.shape[1]
    scales = xp.sqrt(freedom / xp.maximum((left**2).sum(axis=1), _NOTHING))
    left *= xp.where(common, scales, 1)[:, None]
    places = xp.asarray(np.asarray(traits))
    scores = left @ design.residuals[:, places] / _deviations(xp, design)[places]
    return to_host(left @ left.T), to_host(scores)


def _imputed(counts: Array, design: PredictedDesign | PredictedBinary) -> Array:
    """Counts `float64`, missing ones the mean of those used; 0 for who is not used."""
    xp, used = array_module(counts), design.known.any(axis=1)
    dense, missing = counts.astype(xp.float64), counts < 0
    if bool(missing.any()):
        there = used & ~missing
        means = xp.where(there, dense, 0).sum(axis=1) / xp.maximum(there.sum(axis=1), 1)
        dense = xp.where(missing, means[:, None], dense)
    return dense if bool(used.all()) else dense * used


def _rare(counts: Array) -> tuple[Array, Array, Array] | None:
    """Row, person and count of what is not 0; None on a GPU, and where that is not rare."""
    if array_module(counts) is not np:
        return None
    places = np.flatnonzero(counts != 0)
    if places.size > _RARE * counts.size:
        return None
    variant, person = np.divmod(places, counts.shape[1])
    return variant, person, counts.reshape(-1)[places].astype(np.float64)


def _sparse_rows(variant: Array, person: Array, value: Array, shape: tuple[int, int], design: PredictedDesign | PredictedBinary) -> Any:
    """The rows of `_imputed`, of what is not 0."""
    from scipy.sparse import csr_array

    used = design.known.any(axis=1)
    variant, person, value = (array[used[person]] for array in (variant, person, value))
    missing = value < 0
    called = int(used.sum()) - np.bincount(variant[missing], minlength=shape[0])
    means = np.bincount(variant, np.where(missing, 0, value), shape[0]) / np.maximum(called, 1)
    starts = np.concatenate([[0], np.cumsum(np.bincount(variant, minlength=shape[0]))])
    return csr_array((np.where(missing, means[variant], value), person, starts), shape=shape)


def _deviations(xp: Any, design: PredictedDesign) -> Array:
    return xp.sqrt((design.residuals**2).sum(axis=0) / (design.people - design.basis.shape[1]))
