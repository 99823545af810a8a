"""ALT dosages `float32[v, n]` from 0 to 2, NaN where missing: the hard calls nearest to them, and sums over people.

As PLINK 2 has it (Chang et al. 2015, GigaScience 4:7): a dosage is rounded to steps of 1/16384, and one further from 0, 1 and 2 than a
threshold is a missing call. What is counted (call rates, Hardy-Weinberg, linkage, kinship) is of these calls, what is summed is of dosages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotypes import (
    BLOCK_BYTES,
    MISSING,
    Array,
    alt_frequency,
    call_counts,
    pack,
    packed_width,
    share,
    take_samples,
    variant_blocks,
)

THRESHOLD = 0.1
"""How far a dosage may be from its hard call (PLINK's --hard-call-threshold)."""
_STEPS = 16384
"""Steps of a dosage that one allele is worth."""


class DosageSums(NamedTuple):
    """Of every variant, over some people: who has a dosage, `int64[v]`, and the sums of dosages and of their squares, `float64[v]`."""

    called: Array
    copies: Array
    squares: Array

    @property
    def frequency(self) -> Array:
        """Share of ALT among the alleles of two a person, `float64[v]`; NaN where nobody has a dosage."""
        return share(self.copies, 2 * self.called)


def are_dosages(genotypes: Array) -> bool:
    """Whether genotypes are dosages, not packed calls."""
    return bool(genotypes.dtype.kind == "f")


def call_codes(dosages: Array, threshold: float = THRESHOLD) -> Array:
    """Codes `uint8[v, n]`: the nearest of 0, 1, 2 where a dosage is within the threshold of it, else 3, missing."""
    xp = array_module(dosages)
    steps = xp.floor(dosages * np.float32(_STEPS) + np.float32(0.5))
    nearest = xp.floor((steps + _STEPS // 2) / _STEPS)
    near = abs(steps - nearest * _STEPS) <= int(threshold * _STEPS)  # NaN is not
    return xp.where(near, nearest, MISSING).astype(xp.uint8)


def hard_calls(dosages: Array, threshold: float = THRESHOLD) -> Array:
    """Packed calls `uint8[v, ceil(n / 4)]` of the codes that `call_codes` gives."""
    xp = array_module(dosages)
    packed = xp.empty((len(dosages), packed_width(dosages.shape[1])), xp.uint8)
    if xp is np:
        from pipeline.kernels.compiled.dosages import pack_nearest

        pack_nearest(np.ascontiguousarray(dosages), _STEPS, int(threshold * _STEPS), packed)
        return packed
    for rows in variant_blocks(len(dosages), 16 * dosages.shape[1], block_bytes(dosages, BLOCK_BYTES)):
        packed[rows] = pack(call_codes(dosages[rows], threshold))
    return packed


def missing_mask(genotypes: Array) -> Array:
    """Packed calls that are missing where a genotype is: packed calls as they are, and of dosages 3 where there is none and 0 elsewhere."""
    if not are_dosages(genotypes):
        return genotypes
    xp = array_module(genotypes)
    mask = xp.empty((len(genotypes), packed_width(genotypes.shape[1])), xp.uint8)
    for rows in variant_blocks(len(genotypes), 8 * genotypes.shape[1], block_bytes(genotypes, BLOCK_BYTES)):
        mask[rows] = pack(MISSING * xp.isnan(genotypes[rows]).astype(xp.uint8))
    return mask


def dosage_sums(dosages: Array, among: Array | None = None) -> DosageSums:
    """The sums over everyone, or over the people whom `among: bool[n]` picks."""
    xp, n = array_module(dosages), dosages.shape[1]
    used = np.ones(n, np.bool_) if among is None else to_host(among)
    called, sums = xp.empty(len(dosages), xp.int64), xp.empty((2, len(dosages)))
    if xp is np:
        from pipeline.kernels.compiled.dosages import add_sums

        add_sums(np.ascontiguousarray(dosages), np.ascontiguousarray(used), called, sums)
        return DosageSums(called, sums[0], sums[1])
    used = xp.asarray(used)
    for rows in variant_blocks(len(dosages), 16 * n, block_bytes(dosages, BLOCK_BYTES)):
        there = used & ~xp.isnan(dosages[rows])
        block = xp.where(there, dosages[rows], 0).astype(xp.float64)
        called[rows], sums[0, rows], sums[1, rows] = there.sum(axis=1), block.sum(axis=1), (block**2).sum(axis=1)
    return DosageSums(called, sums[0], sums[1])


def alt_frequencies(genotypes: Array, n_samples: int, among: Array | None = None) -> Array:
    """Share of ALT among the alleles, two a person, of those who have a genotype and whom `among: bool[n]` picks: `float64[v]`, or NaN."""
    if are_dosages(genotypes):
        return dosage_sums(genotypes, among).frequency
    return alt_frequency(call_counts(genotypes, n_samples, among))


def genotypes_of(genotypes: Array, n_samples: int, index: Array) -> Array:
    """The packed calls, or dosages, of the samples `index` (`int[m]`, in that order, repeats allowed) of `n_samples`."""
    if not are_dosages(genotypes):
        return take_samples(genotypes, n_samples, index)
    xp = array_module(genotypes)
    return xp.take(genotypes, xp.asarray(index), axis=1)


def other_allele(genotypes: Array, n_samples: int, rows: Array) -> Array:
    """Packed calls, or dosages, in whose `rows: int64[k]` REF and ALT change places: copies of ALT become 2 less those; a copy."""
    xp = array_module(genotypes)
    changed, rows = genotypes.copy(), xp.asarray(rows)
    if are_dosages(genotypes):
        changed[rows] = 2 - genotypes[rows]
        return changed
    bits = (~genotypes[rows] & 0x55) << 1  # the upper bit of 0 and 2, which alone changes; padding keeps its own
    last = n_samples % 4
    if last:
        bits[:, -1] &= (1 << 2 * last) - 1
    changed[rows] = genotypes[rows] ^ bits
    return changed
