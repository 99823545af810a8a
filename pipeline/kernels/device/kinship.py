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


def count_pairs(planes: Any, counts: Any) -> None:
    """A block counts the pairs of 16 and 16 people, a thread a pair, from sixteen words at a time in shared memory."""
    tile = cuda.shared.array((4, 16, 16), np.uint32)
    row, column = cuda.threadIdx.x // 16, cuda.threadIdx.x % 16
    later, earlier = 16 * cuda.blockIdx.x + row, 16 * cuda.blockIdx.y + column
    if cuda.blockIdx.y > cuda.blockIdx.x:
        return
    shared = both = of_earlier = of_later = opposite = 0
    for start in range(0, planes.shape[1], 16):
        for bits in range(4):
            person = column + 16 * (cuda.blockIdx.x if bits < 2 else cuda.blockIdx.y)
            tile[bits, row, column] = word_of(planes, bits % 2, start + row, person)
        cuda.syncthreads()
        for step in range(16):
            low, high, low_second, high_second = tile[0, step, row], tile[1, step, row], tile[2, step, column], tile[3, step, column]
            called = ~(low & high) & ~(low_second & high_second)
            het, het_second = low & ~high & called, low_second & ~high_second & called
            shared += cuda.popc(called)
            both += cuda.popc(het & het_second)
            of_later += cuda.popc(het)
            of_earlier += cuda.popc(het_second)
            opposite += cuda.popc((high ^ high_second) & ~low & ~low_second)
        cuda.syncthreads()
    pair = np.int64(later) * (later - 1) // 2 + earlier
    if earlier < later and pair < counts.shape[0]:
        counts[pair, 0] = shared
        counts[pair, 1] = both
        counts[pair, 2] = of_earlier
        counts[pair, 3] = of_later
        counts[pair, 4] = opposite


def _count_pairs(planes: Any, counts: Any) -> None:
    low, high = (np.unpackbits(plane.view(np.uint8).reshape(*plane.shape, 4), axis=2, bitorder="little") for plane in planes)
    people = round((1 + np.sqrt(1 + 8 * len(counts))) / 2)
    lows, highs = (bits.transpose(1, 0, 2).reshape(planes.shape[2], -1)[:people].astype(np.float32) for bits in (low, high))
    ref, het, alt, called = (1 - lows) * (1 - highs), lows * (1 - highs), highs * (1 - lows), 1 - lows * highs
    later, earlier = np.tril_indices(people, -1)
    apart, halves = ref @ alt.T, het @ called.T
    for column, product in enumerate((called @ called.T, het @ het.T, halves.T, halves, apart + apart.T)):
        counts[:, column] = product[later, earlier]


pair_counts = DeviceKernel(count_pairs, "uint32[:,:,::1] int32[:,::1]", _count_pairs, TILE * TILE, (word_of,))
"""Write what pairs share into `counts: int32[pairs, 5]`, as `pipeline.kernels.kinship` has them, from `sample_planes`.

Blocks: a square of the people in sixteens.
"""


def counted_pairs(packed: Any, n_samples: int) -> Any:
    """What pairs share, `int32[pairs, 5]`, of packed calls."""
    xp = array_module(packed)
    words, width = blocks_for(len(packed), 32), packed.shape[1]
    planes = xp.empty((2, words, 4 * width), xp.uint32)
    sample_planes((blocks_for(width, sample_planes.threads), words), xp.ascontiguousarray(packed), planes)
    counts = xp.zeros((n_samples * (n_samples - 1) // 2, 5), xp.int32)
    tiles = blocks_for(n_samples, TILE)
    pair_counts((tiles, tiles), planes, counts)
    return counts
