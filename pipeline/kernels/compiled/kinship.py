"""Packed calls as bits along the variants, a row a sample, and what pairs of such rows have in common.

Bits are `uint64[samples, 2, words]`, the low and the high bits of the calls, so that a missing call has both; variants beyond the last are
missing calls, and so is all of the samples that fill up the last 32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, popcount, word_at

AT_ONCE = 32
"""Samples of 8 bytes of calls, which are turned at once: samples are filled up to a multiple of it."""
_WORDS = 512  # of 64 variants: 8 KB a sample
_TILE = 64  # samples whose rows lie in the second-level cache with as many others
_HALVES = np.array(
    [0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF, 0x00000000FFFFFFFF], np.uint64
)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FIRST = 1024  # pairs that there is room for at first


@compiled
def fill_bits(calls: NDArray[np.uint8], width: int, bits: NDArray[np.uint64]) -> None:
    """Write the bits of packed calls, `uint8[v * width]`."""
    variants = len(calls) // width if width else 0
    square = np.empty(64, np.uint64)
    for byte in range(0, width, 8):
        for word in range(bits.shape[2]):
            square[:] = _ALL
            for row in range(min(64, variants - 64 * word)):
                place = (64 * word + row) * width + byte
                if byte + 8 <= width:
                    square[row] = word_at(calls, place)
                else:
                    square[row] = _ALL << np.uint64(8 * (width - byte))
                    for rest in range(width - byte):
                        square[row] |= np.uint64(calls[place + rest]) << np.uint64(8 * rest)
            _transpose(square)
            for sample in range(AT_ONCE):
                bits[4 * byte + sample, 0, word] = square[2 * sample]
                bits[4 * byte + sample, 1, word] = square[2 * sample + 1]


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


@compiled
def maybe_near(
    later: NDArray[np.uint64], earlier: NDArray[np.uint64], samples: tuple[int, int], same: bool, least: float
) -> NDArray[np.int64]:
    """The pairs, `int64[k, 2]` of rows of `later` and of `earlier`, that may have a kinship of `least` or more, or none.

    Every pair left out has one, and it is less: it was taken with the heterozygous calls that each has in all, of which a pair has no more
    in common, and with those exact it is no greater. `samples` are those to be looked at of each; with `same` both are the same people,
    and a pair's first row comes after its second.
    """
    found, count = np.empty((_FIRST, 2), np.int64), 0
    totals, others = _totals(later), _totals(earlier)
    squares = np.empty((_TILE, _TILE), np.int32)
    for high in range(0, samples[0], _TILE):
        for low in range(0, min(high + 1, samples[1]) if same else samples[1], _TILE):
            _add_squares(later[high : min(high + _TILE, samples[0])], earlier[low : low + _TILE], squares)
            for one in range(high, min(high + _TILE, samples[0])):
                for other in range(low, min(low + _TILE, one if same else samples[1])):
                    known = min(totals[one, 0] - others[other, 1], others[other, 0] - totals[one, 1]) > 0
                    if known and 0.5 - squares[one - high, other - low] / (4.0 * min(totals[one, 0], others[other, 0])) < least:
                        continue
                    if count == len(found):
                        found = np.concatenate((found, np.empty_like(found)))
                    found[count, 0], found[count, 1] = one, other
                    count += 1
    return found[:count].copy()


@compiled
def _totals(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Heterozygous and missing calls of every sample, `int64[samples, 2]`."""
    totals = np.zeros((len(bits), 2), np.int64)
    for sample in range(len(bits)):
        heterozygous = missing = np.uint64(0)
        for word in range(bits.shape[2]):
            heterozygous += popcount(bits[sample, 0, word] & ~bits[sample, 1, word])
            missing += popcount(bits[sample, 0, word] & bits[sample, 1, word])
        totals[sample, 0], totals[sample, 1] = heterozygous, missing
    return totals


@compiled
def _add_squares(later: NDArray[np.uint64], earlier: NDArray[np.uint64], squares: NDArray[np.int32]) -> None:
    """Write the sums of (one's alleles - the other's)^2 over the variants that both of a pair are called for into `squares`."""
    squares[:] = 0
    for start in range(0, later.shape[2], _WORDS):
        words = (start, min(start + _WORDS, later.shape[2]))
        for one in range(len(later)):
            for first in range(0, len(earlier), 4):
                _add_four(later[one], earlier, first, words, squares[one])


@compiled
def _add_four(one: NDArray[np.uint64], others: NDArray[np.uint64], first: int, words: tuple[int, int], squares: NDArray[np.int32]) -> None:
    """Add those of a sample, `uint64[2, words]`, and of four others from `first` on: its words are read once for all of them.

    What the loop reads must be known to lie word after word: it would not be done in vectors.
    """
    start, stop = words
    low, high = one[0, start:stop], one[1, start:stop]
    low_1, high_1 = others[first, 0, start:stop], others[first, 1, start:stop]
    low_2, high_2 = others[first + 1, 0, start:stop], others[first + 1, 1, start:stop]
    low_3, high_3 = others[first + 2, 0, start:stop], others[first + 2, 1, start:stop]
    low_4, high_4 = others[first + 3, 0, start:stop], others[first + 3, 1, start:stop]
    one_1 = one_2 = one_3 = one_4 = two_1 = two_2 = two_3 = two_4 = np.uint64(0)
    for word in range(len(low)):
        a, b, missing = low[word], high[word], low[word] & high[word]
        # One allele apart: one of them heterozygous. Two: neither, and another allele.
        one_1 += popcount((a ^ low_1[word]) & ~(missing | low_1[word] & high_1[word]))
        two_1 += popcount((b ^ high_1[word]) & ~(a | low_1[word]))
        one_2 += popcount((a ^ low_2[word]) & ~(missing | low_2[word] & high_2[word]))
        two_2 += popcount((b ^ high_2[word]) & ~(a | low_2[word]))
        one_3 += popcount((a ^ low_3[word]) & ~(missing | low_3[word] & high_3[word]))
        two_3 += popcount((b ^ high_3[word]) & ~(a | low_3[word]))
        one_4 += popcount((a ^ low_4[word]) & ~(missing | low_4[word] & high_4[word]))
        two_4 += popcount((b ^ high_4[word]) & ~(a | low_4[word]))
    squares[first] += np.int32(one_1 + 4 * two_1)
    squares[first + 1] += np.int32(one_2 + 4 * two_2)
    squares[first + 2] += np.int32(one_3 + 4 * two_3)
    squares[first + 3] += np.int32(one_4 + 4 * two_4)


@compiled
def count_shared(later: NDArray[np.uint64], earlier: NDArray[np.uint64], pairs: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
    """Write what each of the `pairs: int64[k, 2]` shares into `counts: int32[k, 5]`, with the columns of kernels/kinship.py."""
    for pair in range(len(pairs)):
        one, other = earlier[pairs[pair, 1]], later[pairs[pair, 0]]
        shared = both = first = second = opposite = np.uint64(0)
        for word in range(one.shape[1]):
            low_1, high_1, low_2, high_2 = one[0, word], one[1, word], other[0, word], other[1, word]
            called = ~(low_1 & high_1) & ~(low_2 & high_2)
            shared += popcount(called)
            both += popcount(low_1 & low_2 & called)
            first += popcount(low_1 & called)
            second += popcount(low_2 & called)
            opposite += popcount((high_1 ^ high_2) & ~(low_1 | low_2))
        counts[pair, 0], counts[pair, 1], counts[pair, 2], counts[pair, 3], counts[pair, 4] = shared, both, first, second, opposite
