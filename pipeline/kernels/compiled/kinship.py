"""Packed calls as bits along the variants, a row a sample, and counts over pairs of such rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, popcount, word_at

WORDS = 256  # of 64 variants: a pair's rows, 12 KB, lie in the first-level cache
_TILE = 64  # people whose rows lie in the second-level cache with as many others
_HALVES = np.array(
    [0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF, 0x00000000FFFFFFFF], np.uint64
)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def add_pair_counts(calls: NDArray[np.uint8], width: int, counts: NDArray[np.int32]) -> None:
    """Add what each pair of samples shares to `counts: int32[pairs, 5]`, in the order and with the columns of kernels/kinship.py.

    `calls` are packed calls as `uint8[v * width]`.
    """
    variants = len(calls) // width if width else 0
    samples = int((1 + np.sqrt(1 + 8 * len(counts))) / 2)
    for start in range(0, variants, 64 * WORDS):
        rows = min(64 * WORDS, variants - start)
        planes = np.empty((samples, 3, (rows + 63) // 64), np.uint64)
        _fill_planes(calls[start * width : (start + rows) * width], width, planes)
        for high in range(0, samples, _TILE):
            for low in range(0, high + 1, _TILE):
                for later in range(high, min(high + _TILE, samples)):
                    for earlier in range(low, min(low + _TILE, later)):
                        _add_pair(planes[earlier], planes[later], counts[later * (later - 1) // 2 + earlier])


@compiled
def _add_pair(one: NDArray[np.uint64], other: NDArray[np.uint64], counts: NDArray[np.int32]) -> None:
    """Add one pair's counts, from their rows `uint64[3, words]`: heterozygous, called, homozygous ALT or missing."""
    shared = both = first = second = opposite = np.uint64(0)
    for word in range(one.shape[1]):
        het_1, called_1, alt_1 = one[0, word], one[1, word], one[2, word]
        het_2, called_2, alt_2 = other[0, word], other[1, word], other[2, word]
        called = called_1 & called_2
        shared += popcount(called)
        both += popcount(het_1 & het_2)
        first += popcount(het_1 & called_2)
        second += popcount(called_1 & het_2)
        opposite += popcount((alt_1 ^ alt_2) & called & ~(het_1 | het_2))
    counts[0] += np.int32(shared)
    counts[1] += np.int32(both)
    counts[2] += np.int32(first)
    counts[3] += np.int32(second)
    counts[4] += np.int32(opposite)


@compiled
def _fill_planes(calls: NDArray[np.uint8], width: int, planes: NDArray[np.uint64]) -> None:
    """Write every sample's bits into `planes: uint64[samples, 3, words]`; variants beyond the last are not called."""
    variants, samples = len(calls) // width, planes.shape[0]
    square = np.empty(64, np.uint64)
    for byte in range(0, width, 8):
        for word in range(planes.shape[2]):
            square[:] = _ALL
            for row in range(min(64, variants - 64 * word)):
                place = (64 * word + row) * width + byte
                if byte + 8 <= width:
                    square[row] = word_at(calls, place)
                else:
                    square[row] = 0
                    for rest in range(width - byte):
                        square[row] |= np.uint64(calls[place + rest]) << np.uint64(8 * rest)
            _transpose(square)
            for sample in range(4 * byte, min(4 * byte + 32, samples)):
                low, high = square[2 * (sample - 4 * byte)], square[2 * (sample - 4 * byte) + 1]
                planes[sample, 0, word] = low & ~high
                planes[sample, 1, word] = ~(low & high)
                planes[sample, 2, word] = high


@compiled
def _transpose(square: NDArray[np.uint64]) -> None:
    """Swap the rows and columns of 64 x 64 bits, in place, by halves (Hacker's Delight, section 7-3)."""
    for level in range(5, -1, -1):
        half, mask, shift = 1 << level, _HALVES[level], np.uint64(1 << level)
        for start in range(0, 64, 2 * half):
            for row in range(start, start + half):
                swap = (square[row] >> shift ^ square[row + half]) & mask
                square[row] ^= swap << shift
                square[row + half] ^= swap
