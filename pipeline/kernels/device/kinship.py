"""What pairs of people share, counted in planes of bits: a bit a variant, so that 32 variants are one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel, blocks_for

if TYPE_CHECKING:
    from numba import cuda

TILE = 16
"""People a side of the square of pairs that a block counts."""


def make_planes(packed: Any, planes: Any) -> None:
    """A thread turns the calls of 32 variants of the four people of a byte; variants beyond the last are missing calls."""
    byte, word = cuda.grid(1), cuda.blockIdx.y
    if byte >= packed.shape[1]:
        return
    for field in range(4):
        low = high = np.uint32(0)
        for bit in range(32):
            variant = 32 * word + bit
            code = np.uint32(3)
            if variant < packed.shape[0]:
                code = np.uint32(packed[variant, byte]) >> np.uint32(2 * field) & np.uint32(3)
            low |= (code & np.uint32(1)) << np.uint32(bit)
            high |= (code >> np.uint32(1)) << np.uint32(bit)
        planes[0, word, 4 * byte + field] = low
        planes[1, word, 4 * byte + field] = high


def _make_planes(packed: Any, planes: Any) -> None:
    variants, width = packed.shape
    codes = np.full((32 * planes.shape[1], 4 * width), 3, np.uint8)
    codes[:variants] = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(variants, 4 * width)
    bits = np.uint64(1) << np.arange(32, dtype=np.uint64)[:, None]
    words = codes.reshape(planes.shape[1], 32, 4 * width)
    planes[0] = ((words & 1) * bits).sum(axis=1)
    planes[1] = ((words >> 1) * bits).sum(axis=1)


sample_planes = DeviceKernel(make_planes, "uint8[:,::1] uint32[:,:,::1]", _make_planes, 128)
"""Write the low and the high bits of the calls a person, `planes: uint32[2, ceil(v / 32), 4 * width]`.

Blocks: 128 bytes wide, a word of variants high.
"""


def word_of(planes: Any, bits: int, word: int, person: int) -> Any:
    """A word of a person's plane; where there is none, that of missing calls."""
    return planes[bits, word, person] if word < planes.shape[1] and person < planes.shape[2] else np.uint32(0xFFFFFFFF)


def count_pairs(of_later: Any, of_earlier: Any, rule: Any, counts: Any, wanted: Any) -> None:
    """A block counts the pairs of 16 and 16 people, a thread a pair, from sixteen words at a time in shared memory."""
    tile = cuda.shared.array((4, 16, 16), np.uint32)
    row, column = cuda.threadIdx.x // 16, cuda.threadIdx.x % 16
    later, earlier = 16 * cuda.blockIdx.x + row, 16 * cuda.blockIdx.y + column
    same, least = rule[0] > 0, rule[1]
    if same and cuda.blockIdx.y > cuda.blockIdx.x:
        return
    shared = both = first = second = opposite = 0
    for start in range(0, of_later.shape[1], 16):
        for bits in range(2):
            tile[bits, row, column] = word_of(of_later, bits, start + row, 16 * cuda.blockIdx.x + column)
            tile[2 + bits, row, column] = word_of(of_earlier, bits, start + row, earlier)
        cuda.syncthreads()
        for step in range(16):
            low, high, low_second, high_second = tile[0, step, row], tile[1, step, row], tile[2, step, column], tile[3, step, column]
            called = ~(low & high) & ~(low_second & high_second)
            het, het_second = low & ~high & called, low_second & ~high_second & called
            shared += cuda.popc(called)
            both += cuda.popc(het & het_second)
            second += cuda.popc(het)
            first += cuda.popc(het_second)
            opposite += cuda.popc((high ^ high_second) & ~low & ~low_second)
        cuda.syncthreads()
    if later < counts.shape[0] and earlier < counts.shape[1] and (earlier < later or not same):
        counts[later, earlier, 0] = shared
        counts[later, earlier, 1] = both
        counts[later, earlier, 2] = first
        counts[later, earlier, 3] = second
        counts[later, earlier, 4] = opposite
        fewer = min(first, second)
        if fewer == 0 or 0.5 - (4 * opposite + first + second - 2 * both) / (4.0 * fewer) >= least:
            wanted[later, earlier] = 1


def _states(planes: Any, people: int) -> tuple[Any, ...]:
    """Whether each of so many people is homozygous REF, heterozygous, homozygous ALT and called, `float32[people, variants]` each."""
    low, high = (np.unpackbits(plane.view(np.uint8).reshape(*plane.shape, 4), axis=2, bitorder="little") for plane in planes)
    lows, highs = (
        bits.transpose(1, 0, 2).reshape(planes.shape[2], 32 * planes.shape[1])[:people].astype(np.float32) for bits in (low, high)
    )
    return (1 - lows) * (1 - highs), lows * (1 - highs), highs * (1 - lows), 1 - lows * highs


def _count_pairs(of_later: Any, of_earlier: Any, rule: Any, counts: Any, wanted: Any) -> None:
    ref, het, alt, called = _states(of_later, counts.shape[0])
    ref_first, het_first, alt_first, called_first = _states(of_earlier, counts.shape[1])
    opposite = ref @ alt_first.T + alt @ ref_first.T
    products = called @ called_first.T, het @ het_first.T, called @ het_first.T, het @ called_first.T, opposite
    for column, product in enumerate(products):
        counts[:, :, column] = product
    _, both, first, second, opposite = counts.astype(np.int64).transpose(2, 0, 1)
    fewer = np.minimum(first, second)
    wanted[:] = (fewer == 0) | (0.5 - (4 * opposite + first + second - 2 * both) / np.maximum(4.0 * fewer, 1) >= rule[1])
    if rule[0] > 0:
        before = np.arange(len(second.T)) < np.arange(len(second))[:, None]
        counts *= before[:, :, None]
        wanted *= before


pair_counts = DeviceKernel(
    count_pairs,
    "uint32[:,:,::1] uint32[:,:,::1] float64[::1] int32[:,:,::1] uint8[:,::1]",
    _count_pairs,
    TILE * TILE,
    (word_of,),
)
"""Write what pairs share into `counts: int32[later, earlier, 5]`, as `pipeline.kernels.kinship` has them, from two `sample_planes`.

`rule`: 1 where both are the same people (those pairs alone count of which the earlier comes before the later), and the least kinship;
`wanted: uint8[later, earlier]` becomes 1 for pairs that have it, or none. Blocks: later people in sixteens, earlier.
"""


def planes_of(packed: Any) -> Any:
    """The bits of packed calls, `uint32[2, words, 4 * width]`."""
    xp = array_module(packed)
    words, width = blocks_for(len(packed), 32), packed.shape[1]
    planes = xp.empty((2, words, 4 * width), xp.uint32)
    sample_planes((blocks_for(width, sample_planes.threads), words), xp.ascontiguousarray(packed), planes)
    return planes


def counted_pairs(of_later: Any, of_earlier: Any, people: tuple[int, int], least: float, *, same: bool) -> tuple[Any, Any]:
    """Pairs of so many later and earlier people that have a kinship of `least` or more, or none: numbers `int64[k]`, `int32[k, 5]`."""
    xp = array_module(of_later)
    counts, wanted = xp.empty((*people, 5), np.int32), xp.zeros(people, np.uint8)
    rule = xp.asarray(np.array([same, least], np.float64))
    pair_counts((blocks_for(people[0], TILE), blocks_for(people[1], TILE)), of_later, of_earlier, rule, counts, wanted)
    pairs = xp.flatnonzero(wanted)
    return pairs, counts.reshape(-1, 5)[pairs]
