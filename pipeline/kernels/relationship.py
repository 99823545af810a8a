"""Genomic relationship matrix from packed calls, as sums that blocks of variants add up to, and its principal components.

As PLINK and GCTA do (Yang et al. 2011, Am J Hum Genet 88:76-82): calls less 2f over sqrt(2f(1 - f)), 0 where missing, and each pair's sum
divided by the number of variants that both have.
"""

from __future__ import annotations

import numpy as np

from pipeline.backend import array_module
from pipeline.errors import DataError
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, alt_frequency, call_counts, missing_calls, unpack, variant_blocks

_PAIRS_PER_PRODUCT = 64
"""Products in a matrix product that take about as long as one scattered addition."""


def grm_sums(packed: Array, n_samples: int) -> tuple[Array, Array]:
    """Of a block of variants: sums of products of standardized calls, and variants that both samples have, `float64[n, n]` each.

    Blocks add up with +. A variant that nobody has, or that does not vary, adds nothing to either.
    """
    xp = array_module(packed)
    sums, counts = xp.zeros((n_samples, n_samples)), xp.zeros((n_samples, n_samples))
    for rows in variant_blocks(len(packed), 8 * 4 * packed.shape[1], BLOCK_BYTES):
        calls = packed[rows]
        states = call_counts(calls, n_samples)
        frequency = alt_frequency(states)
        varies = (frequency > 0) & (frequency < 1)
        if not bool(varies.all()):
            calls, states, frequency = calls[varies], states[varies], frequency[varies]
        standard = _standardized(calls, n_samples, frequency)
        sums += standard.T @ standard
        counts += len(calls)
        _subtract_missing(counts, calls, n_samples, states[:, 3])
    return sums, counts


def _standardized(calls: Array, n_samples: int, frequency: Array) -> Array:
    """(call - 2f) / sqrt(2f(1 - f)), 0 where missing: `float64[v, n]`."""
    xp = array_module(calls)
    standard = unpack(calls, n_samples, xp.float64, missing=0)
    standard -= 2 * frequency[:, None]
    standard /= xp.sqrt(2 * frequency * (1 - frequency))[:, None]
    standard[missing_calls(calls, n_samples)] = 0
    return standard


def _subtract_missing(counts: Array, calls: Array, n_samples: int, missing: Array) -> None:
    """Takes from the counts of pairs, in place, the variants that one or both have not: missing of i + of j - of both."""
    xp = array_module(calls)
    if not bool(missing.any()):
        return
    some = calls[missing > 0]
    variant, sample = missing_calls(some, n_samples)
    alone = xp.bincount(sample, minlength=n_samples)
    counts -= alone[:, None] + alone[None, :]
    pairs = int((missing**2).sum())
    if pairs > min(len(some) * n_samples**2 // _PAIRS_PER_PRODUCT, BLOCK_BYTES // 16):
        # Sums of 0 and 1 are exact in float32 below 2^24, which no block reaches.
        indicator = xp.zeros((len(some), n_samples), xp.float32)
        indicator[variant, sample] = 1
        counts += indicator.T @ indicator
        return
    first, second = _pairs(variant, missing[missing > 0])
    xp.add.at(counts.reshape(-1), sample[first] * n_samples + sample[second], 1.0)


def _pairs(variant: Array, missing: Array) -> tuple[Array, Array]:
    """Places of all ordered pairs of missing calls of one variant, itself too; `variant` is sorted, `missing` the calls of each."""
    xp = array_module(variant)
    each = missing[variant]
    starts = (xp.cumsum(missing) - missing)[variant]
    ends = xp.cumsum(each)
    # CuPy's repeat takes no array of numbers: the place of a pair is found among the running totals.
    pair = xp.arange(int(ends[-1]))
    first = xp.searchsorted(ends, pair, side="right")
    return first, starts[first] + pair - (ends - each)[first]


def grm(sums: Array, counts: Array) -> Array:
    """Relationships `float64[n, n]`: sums over counts. Raises DataError where two samples have no variant in common."""
    if not bool((counts > 0).all()):
        first, second = (int(place[0]) for place in array_module(counts).nonzero(counts <= 0))
        raise DataError(
            f"Samples {first} and {second} (from 0) share no called variant that varies, so their relationship is unknown. "
            "Remove samples with a low call rate first, or use more variants."
        )
    return sums / counts


def principal_components(relationships: Array, components: int) -> tuple[Array, Array]:
    """The largest eigenvalues `float64[k]`, descending, and their unit eigenvectors `float64[n, k]`, of an exact solver.

    The component of largest magnitude of a vector is positive. Raises DataError for more components than samples and for values that are
    not finite.
    """
    xp = array_module(relationships)
    n = len(relationships)
    if not 1 <= components <= n:
        raise DataError(f"{components} principal components were asked of {n} samples: ask for 1 to {n}.")
    if not bool(xp.isfinite(relationships).all()):
        raise DataError("The relationship matrix has values that are not finite; remove samples and variants with no calls first.")
    if xp is np:
        from scipy.linalg import eigh

        values, vectors = eigh(relationships, subset_by_index=(n - components, n - 1))
    else:
        values, vectors = (found[..., -components:] for found in xp.linalg.eigh(relationships))
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = vectors[xp.argmax(abs(vectors), axis=0), xp.arange(components)]
    return values, vectors * xp.where(largest < 0, -1.0, 1.0)
