"""Polygenic scores: each person's sum of weight x effect alleles, from packed calls or from dosages.

As PLINK's --score (Chang et al. 2015, GigaScience 4:7): a missing call counts as its variant's mean, 2f, or as nothing.
"""

from __future__ import annotations

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, alt_frequency, call_counts, variant_blocks
from pipeline.kernels.standardized import value_sums


def call_scores(
    packed: Array, n_samples: int, weights: Array, swapped: Array, impute: bool, frequency: Array | None = None
) -> tuple[Array, Array]:
    """Sums `float64[n]` over the variants, and how many count for each sample, `int64[n]`, of packed calls.

    `weights: float64[v]` are for ALT, or for REF where `swapped: bool[v]`. With `impute` a missing call counts as the mean, else not at
    all: by the ALT `frequency: float64[v]`, or everyone's where that is not given or NaN. A variant that nobody is called for counts for
    nobody.
    """
    xp = array_module(packed)
    states = call_counts(packed, n_samples)
    called = states[:, 3] < n_samples
    alleles = xp.where(swapped[:, None], xp.array([2.0, 1.0, 0.0, 0.0]), xp.array([0.0, 1.0, 2.0, 0.0]))
    frequency = _known(frequency, xp.where(called, alt_frequency(states), 0))
    if impute:
        alleles[:, 3] = 2 * xp.where(swapped, 1 - frequency, frequency) * called
        used = xp.full(n_samples, int(called.sum()), xp.int64)
    else:
        used = value_sums(packed, n_samples, xp.tile(xp.array([1.0, 1.0, 1.0, 0.0]), (len(packed), 1))).astype(xp.int64)
    return value_sums(packed, n_samples, weights[:, None] * alleles), used


def _known(frequency: Array | None, everyones: Array) -> Array:
    xp = array_module(everyones)
    return everyones if frequency is None else xp.where(xp.isnan(frequency), everyones, frequency)


def dosage_scores(dosages: Array, weights: Array, swapped: Array, impute: bool, frequency: Array | None = None) -> tuple[Array, Array]:
    """As `call_scores`, of ALT dosages `float32[v, n]` from 0 to 2, NaN where missing."""
    xp = array_module(dosages)
    n_samples = dosages.shape[1]
    sums, used = xp.zeros(n_samples), xp.zeros(n_samples, xp.int64)
    for rows in variant_blocks(len(dosages), 8 * n_samples, block_bytes(dosages, BLOCK_BYTES)):
        alt = dosages[rows].astype(xp.float64)
        called = ~xp.isnan(alt)
        alleles = xp.where(called, xp.where(swapped[rows, None], 2 - alt, alt), 0)
        number = called.sum(axis=1)
        if impute:
            mean = alleles.sum(axis=1) / xp.maximum(number, 1)
            if frequency is not None:
                mean = _known(2 * xp.where(swapped[rows], 1 - frequency[rows], frequency[rows]), mean)
            alleles = xp.where(called, alleles, mean[:, None])
            used += (number > 0).sum()
        else:
            used += called.sum(axis=0)
        sums += weights[rows] @ alleles
    return sums, used
