"""Genotypes of a set of variants: burden masks of them, and the score statistics that tests of the set are made of.

Counts of ALT are `[v, n]` below 0 where missing; rows that are tested are NaN there, and get the mean of those used.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array, unpack
from pipeline.kernels.predicted_scan import PredictedDesign

Burden = Literal["max", "sum", "comphet"]

_DENSE = 0.5


def alt_counts(block: GenotypeBlock) -> Array:
    """Copies of ALT, `int8[v, n]`, or `float32[v, n]` of dosages; -1 where missing."""
    if block.dosages is None:
        return unpack(block.calls, block.n_samples, np.int8, -1)
    return block.xp.where(block.xp.isnan(block.dosages), -1, block.dosages)


def alt_totals(counts: Array, used: Array) -> tuple[Array, Array]:
    """Of the people `used: bool[n]`: copies of ALT `float64[v]`, and people with a call, `int64[v]`. On the host."""
    xp = array_module(counts)
    there = (counts >= 0) & used
    totals = xp.where(there, counts, 0).sum(axis=1, dtype=xp.float64)
    return to_host(totals), to_host(there.sum(axis=1))


def burden_masks(counts: Array, members: Any, burden: Burden = "max") -> Array:
    """Burden of each mask, `float32[k, n]`, of variants `members: bool[k, v]` (on the host; one variant a mask at least).

    `max`: the greatest count of its variants; `sum`: all counts; `comphet`: these, at most 2. A missing call counts nothing; NaN where
    all are missing.
    """
    xp = array_module(counts)
    found = xp.empty((len(members), counts.shape[1]), xp.float32)
    for mask, own in zip(found, members, strict=True):
        some = counts[xp.asarray(np.flatnonzero(own))]
        greatest = some.max(axis=0)
        mask[:] = greatest
        if burden != "max":
            mask[:] = xp.maximum(some, 0).sum(axis=0, dtype=xp.float32)
        if burden == "comphet":
            mask[:] = xp.minimum(mask, 2)
        mask[greatest < 0] = xp.nan
    return found


def set_scores(rows: Array, design: PredictedDesign) -> tuple[Array, Array]:
    """Scores `float64[v, t]` in units of the traits' standard deviations, and their covariance `float64[v, v]`, on the host.

    `rows: float[v, n]`. The covariance is over everybody used, also where some of them lack a trait, as in regenie.
    """
    xp = array_module(rows)
    design = design.beside(rows)
    dense = _imputed(rows, design)
    explained = dense @ design.basis
    scores = dense @ design.residuals - explained @ (design.basis.T @ design.residuals)
    covariance = dense @ dense.T - explained @ explained.T
    return to_host(scores / _deviations(xp, design)), to_host(covariance)


def joint_products(rows: Array, design: PredictedDesign, traits: Any) -> tuple[Array, Array]:
    """What a joint fit of masks `float[k, n]` needs for `traits` (places) that the same people have: A `[k, k]` and scores `[k, s]`.

    As in regenie, covariates are taken off only of masks that half of the people or more carry; of rarer ones they are left in, which
    makes the test a little conservative.
    """
    xp = array_module(rows)
    design = design.beside(rows)
    dense = _imputed(rows, design)
    common = (dense > 0).sum(axis=1) >= _DENSE * design.used
    left = xp.where(common[:, None], dense - (dense @ design.basis) @ design.basis.T, dense) * design.known[:, int(traits[0])]
    places = xp.asarray(np.asarray(traits))
    scores = left @ design.residuals[:, places] / _deviations(xp, design)[places]
    return to_host(left @ left.T), to_host(scores)


def _imputed(rows: Array, design: PredictedDesign) -> Array:
    """Rows `float64`, missing ones the mean of those used; 0 for who is not used."""
    xp, used = array_module(rows), design.known.any(axis=1)
    dense = rows.astype(xp.float64)
    missing = xp.isnan(dense)
    if bool(missing.any()):
        there = used & ~missing
        means = xp.where(there, dense, 0).sum(axis=1) / xp.maximum(there.sum(axis=1), 1)
        dense = xp.where(missing, means[:, None], dense)
    return dense if bool(used.all()) else dense * used


def _deviations(xp: Any, design: PredictedDesign) -> Array:
    return xp.sqrt((design.residuals**2).sum(axis=0) / (design.people - design.basis.shape[1]))
