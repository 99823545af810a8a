"""Counts of the states of packed calls, a variant or a sample at a time, and packed calls of chosen samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel, blocks_for

if TYPE_CHECKING:
    from numba import cuda

VARIANTS = 8
"""Variants that a block of `variant_counts` counts, 32 threads each."""
CHUNK = 255
"""Variants that a thread of `sample_counts` counts: what a byte holds."""


def count_variants(packed: Any, mask: Any, counted: int, counts: Any) -> None:
    """Of each byte's four calls 32 threads take every 32nd; four bytes make a word, whose bits are counted at once."""
    sums = cuda.shared.array((8, 3), np.int32)
    lane, place = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    variant = cuda.blockIdx.x * 8 + place
    if lane < 3:
        sums[place, lane] = 0
    cuda.syncthreads()
    low = high = both = 0
    if variant < packed.shape[0]:
        for start in range(lane, packed.shape[1], 128):
            word = np.uint32(0)
            for part in range(4):
                byte = start + 32 * part
                if byte < packed.shape[1]:
                    call = packed[variant, byte]
                    if mask.shape[0] > 0:
                        call &= mask[byte]
                    word |= np.uint32(call) << np.uint32(8 * part)
            first, second = word & np.uint32(0x55555555), word >> np.uint32(1) & np.uint32(0x55555555)
            low += cuda.popc(first)
            high += cuda.popc(second)
            both += cuda.popc(first & second)
    cuda.atomic.add(sums, (place, 0), low - both)
    cuda.atomic.add(sums, (place, 1), high - both)
    cuda.atomic.add(sums, (place, 2), both)
    cuda.syncthreads()
    if lane < 4 and variant < packed.shape[0]:
        counts[variant, lane] = sums[place, lane - 1] if lane else counted - sums[place, 0] - sums[place, 1] - sums[place, 2]


def _count_variants(packed: Any, mask: Any, counted: int, counts: Any) -> None:
    chosen = packed & mask if len(mask) else packed
    first, second = chosen & 0x55, chosen >> 1 & 0x55
    low, high, both = (np.bitwise_count(bits).sum(axis=1, dtype=np.int64) for bits in (first, second, first & second))
    counts[:] = np.stack([counted - low - high + both, low - both, high - both, both], axis=1)


variant_counts = DeviceKernel(count_variants, "uint8[:,::1] uint8[::1] int64 int64[:,::1]", _count_variants, 32 * VARIANTS)
"""Write the homozygous REF, heterozygous, homozygous ALT and missing samples of each variant into `counts: int64[v, 4]`.

`mask: uint8[width]` has both bits of the `counted` samples, or is empty where all are counted; one block for every 8 variants.
"""


def count_samples(packed: Any, counts: Any) -> None:
    """A thread counts the four samples of a byte in up to 255 variants, in the bytes of words, and adds them up in `counts`."""
    byte, begin = cuda.grid(1), cuda.blockIdx.y * 255
    if byte >= packed.shape[1]:
        return
    low = high = both = np.uint32(0)
    for variant in range(begin, min(begin + 255, packed.shape[0])):
        call = np.uint32(packed[variant, byte])
        spread = (
            call & np.uint32(0x03)
            | (call & np.uint32(0x0C)) << np.uint32(6)
            | (call & np.uint32(0x30)) << np.uint32(12)
            | (call & np.uint32(0xC0)) << np.uint32(18)
        )
        first, second = spread & np.uint32(0x01010101), spread >> np.uint32(1) & np.uint32(0x01010101)
        low += first
        high += second
        both += first & second
    for field in range(4):
        shift = np.uint32(8 * field)
        missing = np.int64(both >> shift & np.uint32(0xFF))
        one = np.int64(low >> shift & np.uint32(0xFF)) - missing
        two = np.int64(high >> shift & np.uint32(0xFF)) - missing
        cuda.atomic.add(counts, (4 * byte + field, 0), min(255, packed.shape[0] - begin) - one - two - missing)
        cuda.atomic.add(counts, (4 * byte + field, 1), one)
        cuda.atomic.add(counts, (4 * byte + field, 2), two)
        cuda.atomic.add(counts, (4 * byte + field, 3), missing)


def _count_samples(packed: Any, counts: Any) -> None:
    for field in range(4):
        codes = packed >> np.uint8(2 * field) & 3
        for code in range(4):
            counts[field::4, code] += (codes == code).sum(axis=0)


sample_counts = DeviceKernel(count_samples, "uint8[:,::1] int64[:,::1]", _count_samples, 128)
"""Add the homozygous REF, heterozygous, homozygous ALT and missing variants of each sample to `counts: int64[4 * width, 4]`.

Blocks: 128 bytes wide, 255 variants high.
"""


def sum_values(packed: Any, values: Any, sums: Any) -> None:
    """A thread adds up what the four samples of a byte have in `CHUNK` variants, in their order; `sums` has a row a chunk."""
    byte, chunk = cuda.grid(1), cuda.blockIdx.y
    if byte >= packed.shape[1]:
        return
    first = second = third = fourth = 0.0
    for variant in range(255 * chunk, min(255 * (chunk + 1), packed.shape[0])):
        call = np.int32(packed[variant, byte])
        first += values[variant, call & 3]
        second += values[variant, call >> 2 & 3]
        third += values[variant, call >> 4 & 3]
        fourth += values[variant, call >> 6]
    sums[chunk, 4 * byte] = first
    sums[chunk, 4 * byte + 1] = second
    sums[chunk, 4 * byte + 2] = third
    sums[chunk, 4 * byte + 3] = fourth


def _sum_values(packed: Any, values: Any, sums: Any) -> None:
    for chunk in range(len(sums)):
        rows = slice(CHUNK * chunk, CHUNK * (chunk + 1))
        for field in range(4):
            codes = packed[rows] >> np.uint8(2 * field) & 3
            sums[chunk, field::4] = np.take_along_axis(values[rows], codes.astype(np.intp), axis=1).sum(axis=0)


value_sums = DeviceKernel(sum_values, "uint8[:,::1] float64[:,::1] float64[:,::1]", _sum_values, 128)
"""Write the sums of what each sample's calls stand for, of `values: float64[v, 4]`, 255 variants a row: `sums: float64[chunks, 4 * width]`.

Blocks: 128 bytes wide, 255 variants high.
"""


def pack_samples(packed: Any, index: Any, taken: Any) -> None:
    """A thread writes a byte: the calls of four of the chosen samples."""
    place = cuda.grid(1)
    if place >= taken.size:
        return
    variant, byte = place // taken.shape[1], place % taken.shape[1]
    made = np.int32(0)
    for field in range(min(4, index.shape[0] - 4 * byte)):
        sample = index[4 * byte + field]
        made |= (np.int32(packed[variant, sample >> 2]) >> np.int32(2 * (sample & 3)) & 3) << np.int32(2 * field)
    taken[variant, byte] = made


def _pack_samples(packed: Any, index: Any, taken: Any) -> None:
    taken[:] = 0
    codes = packed[:, index >> 2] >> (2 * (index & 3)).astype(np.uint8) & 3
    for field in range(4):
        some = codes[:, field::4]
        taken[:, : some.shape[1]] |= some << np.uint8(2 * field)


take_samples = DeviceKernel(pack_samples, "uint8[:,::1] int64[::1] uint8[:,::1]", _pack_samples)
"""Write the calls of the samples `index: int64[m]` packed anew into `taken: uint8[v, ceil(m / 4)]`; a thread for each of its bytes."""


def chunked(packed: Any) -> tuple[int, int]:
    """Blocks of the kernels whose threads take a byte of 255 variants each."""
    return blocks_for(packed.shape[1], sample_counts.threads), blocks_for(len(packed), CHUNK)


def summed_values(packed: Any, values: Any) -> Any:
    """Sums over the variants of what each sample's calls stand for, of `values: float64[v, 4]`: `float64[4 * width]`, in a fixed order."""
    xp = array_module(packed)
    blocks = chunked(packed)
    sums = xp.empty((blocks[1], 4 * packed.shape[1]))
    value_sums(blocks, xp.ascontiguousarray(packed), xp.ascontiguousarray(values), sums)
    return sums.sum(axis=0)
