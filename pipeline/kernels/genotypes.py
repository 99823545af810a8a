"""Genotype calls of two bits each: packing, unpacking, counting and choosing samples.

Packed calls are `uint8[variants, ceil(samples / 4)]`: sample s lies in byte s // 4 at bits 2 * (s % 4), low bits first. A code is the
number of ALT alleles (0, 1, 2), 3 is a missing call, and the padding bits of the last byte are 0. Every function takes NumPy or CuPy
arrays and answers with the same kind; none holds more than a block of variants unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.launch import blocks_for
from pipeline.kernels.device import counts as on_device
from pipeline.kernels.device.decode import decode

Array = Any
"""A NumPy or a CuPy array: two libraries with no common type."""

MISSING = 3
"""The code of a missing call."""

BLOCK_BYTES = 16 << 20
"""What one temporary of a block may take: a few of them stay below 64 MB."""


def packed_width(n_samples: int) -> int:
    """Bytes that the calls of one variant take."""
    return -(-n_samples // 4)


def variant_blocks(n_variants: int, bytes_per_variant: int, limit: int = BLOCK_BYTES) -> Iterator[slice]:
    """Slices that cover all variants, each of at most `limit` bytes (one variant at least)."""
    step = max(1, limit // max(1, bytes_per_variant))
    return (slice(start, min(start + step, n_variants)) for start in range(0, n_variants, step))


def pack(dosages: Array) -> Array:
    """Two-bit calls from allele counts `int8[v, n]` or `uint8[v, n]` of 0, 1, 2 and 3 or -1 for a missing call.

    Raises ValueError for any other value.
    """
    xp = array_module(dosages)
    n_variants, n_samples = dosages.shape
    packed = xp.empty((n_variants, packed_width(n_samples)), xp.uint8)
    for rows in variant_blocks(n_variants, 8 * n_samples):
        block = dosages[rows]
        wrong = (block > MISSING) | (block < -1)
        if bool(wrong.any()):
            raise ValueError(f"A call is 0, 1, 2 ALT alleles, or 3 or -1 where it is missing; found {int(block[wrong][0])}.")
        packed[rows] = _pack_codes(xp, block.astype(xp.uint8) & 3)
    return packed


def _pack_codes(xp: Any, codes: Array) -> Array:
    """Bytes of four codes each, from codes 0 to 3 as `uint8[v, n]`."""
    n_variants, n_samples = codes.shape
    padded = xp.zeros((n_variants, packed_width(n_samples), 4), xp.uint8)
    padded.reshape(n_variants, -1)[:, :n_samples] = codes
    # Four bytes as one little-endian word, so that one shift moves them all: byte k's code ends at bits 2k.
    words = padded.view("<u4")[..., 0]
    return (words | words >> 6 | words >> 12 | words >> 18).astype(xp.uint8)


def unpack(packed: Array, n_samples: int, dtype: Any = np.int8, missing: float = MISSING, codes: tuple[float, float] = (1, 2)) -> Array:
    """Allele counts `dtype[v, n_samples]` of packed calls, `missing` where there is no call; `codes` for one and two copies of ALT.

    The answer may be a view whose rows are padded to a multiple of four samples. It is as large as it looks: give blocks of variants.
    Raises ValueError where the width does not fit the number of samples.
    """
    xp = array_module(packed)
    _check_width(packed, n_samples)
    values = np.array([0, *codes, missing], dtype)
    if xp is not np:
        return decode(packed, n_samples, xp.asarray(values[None]))
    table = values[np.arange(256)[:, None] >> np.array([0, 2, 4, 6]) & 3]
    # "clip" (a byte is never out of 256 rows) spares NumPy a buffered copy.
    four = np.take(table, packed, axis=0, mode="clip")
    return four.reshape(len(packed), 4 * packed.shape[1])[:, :n_samples]


def _check_width(packed: Array, n_samples: int) -> None:
    if packed.ndim != 2 or packed.shape[1] != packed_width(n_samples):
        raise ValueError(
            f"Packed calls of {n_samples} samples are {packed_width(n_samples)} bytes a variant, not an array of shape {packed.shape}."
        )


def flat_calls(packed: Array, n_samples: int) -> Array:
    """The packed calls one after another, `uint8[v * width]`, as compiled kernels take them. Raises ValueError where the width is wrong."""
    _check_width(packed, n_samples)
    return np.ascontiguousarray(packed).reshape(-1)


def call_counts(packed: Array, n_samples: int, among: Array | None = None) -> Array:
    """Samples per variant that are homozygous REF, heterozygous, homozygous ALT, missing: `int64[v, 4]`, by counting bits.

    `among` (`bool[n_samples]`) picks the samples that are counted.
    """
    xp = array_module(packed)
    _check_width(packed, n_samples)
    counts, counted = xp.empty((len(packed), 4), xp.int64), n_samples
    mask = np.empty(0, np.uint8)
    if among is not None:
        people = to_host(among)
        mask, counted = pack(MISSING * people[None].astype(np.uint8))[0], int(people.sum())
    if xp is not np:
        blocks = blocks_for(len(packed), on_device.VARIANTS)
        on_device.variant_counts(blocks, xp.ascontiguousarray(packed), xp.asarray(mask), counted, counts)
        return counts
    from pipeline.kernels.compiled.counts import variant_counts

    variant_counts(flat_calls(packed & mask if len(mask) else packed, n_samples), packed.shape[1], counts)
    counts[:, 0] = counted - counts[:, 1] - counts[:, 2] - counts[:, 3]
    return counts


def sample_counts(packed: Array, n_samples: int) -> Array:
    """Variants per sample that are homozygous REF, heterozygous, homozygous ALT, missing: `int64[n_samples, 4]`."""
    xp = array_module(packed)
    _check_width(packed, n_samples)
    counts = xp.zeros((4 * packed.shape[1], 4), xp.int64)
    if xp is not np:
        on_device.sample_counts(on_device.chunked(packed), xp.ascontiguousarray(packed), counts)
        return counts[:n_samples]
    from pipeline.kernels.compiled import counts as compiled

    compiled.sample_counts(flat_calls(packed, n_samples), packed.shape[1], counts)
    counts = counts[:n_samples]
    counts[:, 0] = len(packed) - counts[:, 1] - counts[:, 2] - counts[:, 3]
    return counts


def missing_sums(packed: Array, n_samples: int, weights: Array) -> Array:
    """Sum per sample, `float64[n_samples]`, of the weights (`float64[v]`) of the variants it has no call for."""
    xp = array_module(packed)
    if xp is np:
        from pipeline.kernels.compiled.counts import add_missing

        sums = np.zeros(4 * packed.shape[1])
        add_missing(flat_calls(packed, n_samples), packed.shape[1], weights, sums)
        return sums[:n_samples]
    values = xp.zeros((len(packed), 4))
    values[:, MISSING] = weights
    return on_device.summed_values(packed, values)[:n_samples]


def take_samples(packed: Array, n_samples: int, index: Array) -> Array:
    """The calls of the samples `index` (`int[m]`, in that order, repeats allowed) packed anew: `uint8[v, ceil(m / 4)]`.

    Raises ValueError for an index outside 0 .. n_samples - 1.
    """
    xp = array_module(packed)
    _check_width(packed, n_samples)
    index = to_host(index).astype(np.int64)
    if len(index) and not 0 <= int(index.min()) <= int(index.max()) < n_samples:
        raise ValueError(f"Sample indices run from 0 to {n_samples - 1}; found {int(index.min())} to {int(index.max())}.")
    if xp is not np:
        chosen = xp.empty((len(packed), packed_width(len(index))), xp.uint8)
        on_device.take_samples(
            blocks_for(chosen.size, on_device.take_samples.threads), xp.ascontiguousarray(packed), xp.asarray(index), chosen
        )
        return chosen
    from pipeline.kernels.compiled.counts import take_runs

    starts = np.flatnonzero(np.diff(index, prepend=-2) != 1)
    runs = np.stack([index[starts], np.diff(starts, append=len(index))], axis=1)
    taken = np.empty((len(packed), packed_width(len(index))), np.uint8)
    take_runs(flat_calls(packed, n_samples), packed.shape[1], runs, taken)
    return taken


def missing_calls(packed: Array, n_samples: int) -> tuple[Array, Array]:
    """Where calls are missing: `variant` and `sample` (`int64[calls]` each), in order of the variants."""
    xp = array_module(packed)
    _check_width(packed, n_samples)
    pairs = packed & packed >> 1 & 0x55
    variant, byte = xp.nonzero(pairs != 0)
    fields = pairs[variant, byte][:, None] >> xp.array([0, 2, 4, 6], xp.uint8) & 1
    call, field = xp.nonzero(fields != 0)
    return variant[call], 4 * byte[call] + field


def alt_frequency(counts: Array) -> Array:
    """Share of ALT among the called alleles, `float64[v]` from `call_counts`; NaN where nobody is called."""
    return share(counts[:, 1] + 2 * counts[:, 2], 2 * counts[:, :3].sum(axis=1))


def share(part: Array, whole: Array) -> Array:
    """A count's share of another, `float64`; NaN where that is 0."""
    xp = array_module(whole)
    return xp.where(whole > 0, part / xp.maximum(whole, 1), xp.nan)
