"""Linkage of pairs of variants: which of a window are above a limit of r^2, and r^2 of haplotypes of one variant with others."""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.launch import DeviceKernel

if TYPE_CHECKING:
    from numba import cuda


def four_bytes(packed: Any, variant: int, byte: int) -> Any:
    """Four bytes of a variant as a word; those beyond its last are missing calls."""
    word = np.uint32(0)
    for part in range(4):
        call = packed[variant, byte + part] if byte + part < packed.shape[1] else np.uint8(0xFF)
        word |= np.uint32(call) << np.uint32(8 * part)
    return word


def link_pairs(packed: Any, ends: Any, padding: int, limit: float, linked: Any) -> None:
    """A thread takes a pair: of those whom both have, sums, squares and product of 1, 0 and -1 give r^2 by whole numbers."""
    place = np.int64(cuda.grid(1))
    if place >= linked.size:
        return
    first, offset = place // linked.shape[1], place % linked.shape[1]
    second = first + 1 + offset
    linked[first, offset] = 0
    if second >= ends[first]:
        return
    people = squares = other_squares = sums = other_sums = product = 0
    for byte in range(0, packed.shape[1], 4):
        call, other = four_bytes(packed, first, byte), four_bytes(packed, second, byte)
        low, high = call & np.uint32(0x55555555), call >> np.uint32(1) & np.uint32(0x55555555)
        other_low, other_high = other & np.uint32(0x55555555), other >> np.uint32(1) & np.uint32(0x55555555)
        both = ~(low & high | other_low & other_high) & np.uint32(0x55555555)
        one, two = ~(low | high) & both, high & ~low & both
        other_one, other_two = ~(other_low | other_high) & both, other_high & ~other_low & both
        ones, twos, other_ones, other_twos = cuda.popc(one), cuda.popc(two), cuda.popc(other_one), cuda.popc(other_two)
        people += cuda.popc(both)
        squares += ones + twos
        sums += ones - twos
        other_squares += other_ones + other_twos
        other_sums += other_ones - other_twos
        product += cuda.popc(one & other_one | two & other_two) - cuda.popc(one & other_two | two & other_one)
    # The calls that fill a variant's last byte read as no copy of both.
    people, squares, other_squares = people - padding, squares - padding, other_squares - padding
    sums, other_sums, product = sums - padding, other_sums - padding, product - padding
    covariance = np.float64(np.int64(product) * people - np.int64(sums) * other_sums)
    variance = np.float64(np.int64(squares) * people - np.int64(sums) * sums)
    other_variance = np.float64(np.int64(other_squares) * people - np.int64(other_sums) * other_sums)
    linked[first, offset] = 1 if covariance * covariance > limit * variance * other_variance else 0


def _link_pairs(packed: Any, ends: Any, padding: int, limit: float, linked: Any) -> None:
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(len(packed), -1)[:, : 4 * packed.shape[1] - padding]
    called = (codes != 3).astype(np.float64)
    calls = (1.0 - codes) * called
    linked[:] = 0
    for first in range(len(linked)):
        rows = slice(first + 1, int(ends[first]))
        one, here, others, there = calls[first], called[first], calls[rows], called[rows]
        people, sums, other_sums = there @ here, there @ one, others @ here
        covariance = (others @ one) * people - sums * other_sums
        variance = (there @ (one * one)) * people - sums * sums
        other_variance = ((others * others) @ here) * people - other_sums * other_sums
        linked[first, : len(others)] = covariance * covariance > limit * variance * other_variance


linked_pairs = DeviceKernel(link_pairs, "uint8[:,::1] int64[::1] int64 float64 uint8[:,::1]", _link_pairs, 256, helpers=(four_bytes,))
"""Write 1 where variants i and i + 1 + j have r^2 above `limit` into `linked[i, j]: uint8[u, most]`, else 0, of the first u variants.

`ends: int64[u]` is one past the last variant that a window holds beside i, at most i + 1 + most and v; `padding` is how many calls fill the
last byte of a variant. A thread for each of `linked`.
"""


def cubic_at(at: float, first: float, second: float, third: float) -> float:
    """The cubic 2 x^3 + first x^2 + second x + third at a point."""
    return ((2.0 * at + first) * at + second) * at + third


def log_likelihood_of(found: float, doubles: float, certain: tuple[float, float, float, float]) -> float:
    """Of so many double heterozygotes with both ALT on one haplotype; `certain` has both, first, second, neither."""
    both, first, second, neither = certain
    coupled, apart, other, none = both + found, first + doubles - found, second + doubles - found, neither + found
    likelihood = both * log(max(coupled, 1e-300)) + first * log(max(apart, 1e-300))
    likelihood += second * log(max(other, 1e-300)) + neither * log(max(none, 1e-300))
    return likelihood + doubles * log(max(coupled * none + apart * other, 1e-300))


def coupled_of(doubles: float, certain: tuple[float, float, float, float]) -> float:
    """Of the double heterozygotes, how many have both ALT on one haplotype: the likeliest root of the cubic."""
    both, first, second, neither = certain
    spread = both + neither - first - second - 2 * doubles
    square = spread - doubles
    linear = both * neither + (first + doubles) * (second + doubles) - doubles * (both + neither)
    constant = -doubles * both * neither
    root = sqrt(max(square * square - 6.0 * linear, 0.0))
    best, likeliest, begin = 0.0, -np.inf, 0.0
    for stretch in range(3):
        end = doubles
        if stretch < 2:
            turn = (-square - root) / 6.0 if stretch == 0 else (-square + root) / 6.0
            end = min(max(turn, 0.0), doubles)
        low, high = begin, end
        if cubic_at(low, square, linear, constant) <= 0 <= cubic_at(high, square, linear, constant):
            for _ in range(60):
                middle = (low + high) / 2
                if cubic_at(middle, square, linear, constant) < 0:
                    low = middle
                else:
                    high = middle
            found = (low + high) / 2
            likelihood = log_likelihood_of(found, doubles, certain)
            if likelihood > likeliest:
                best, likeliest = found, likelihood
        begin = end
    return best


def square_haplotypes(packed: Any, index: int, padding: int, squared: Any) -> None:
    """A block counts the nine pairs of calls of one variant with the variant `index`; one of its threads finds r^2."""
    pairs = cuda.shared.array(9, np.int32)
    thread, variant = cuda.threadIdx.x, cuda.blockIdx.x
    if thread < 9:
        pairs[thread] = 0
    cuda.syncthreads()
    for byte in range(4 * thread, packed.shape[1], 4 * cuda.blockDim.x):
        one, other = four_bytes(packed, index, byte), four_bytes(packed, variant, byte)
        for copies in range(3):
            flipped = one ^ (np.uint32(0xFFFFFFFF) if copies == 0 else np.uint32(0xAAAAAAAA) if copies == 1 else np.uint32(0x55555555))
            matches = flipped & flipped >> np.uint32(1) & np.uint32(0x55555555)
            for others in range(3):
                swapped = other ^ (
                    np.uint32(0xFFFFFFFF) if others == 0 else np.uint32(0xAAAAAAAA) if others == 1 else np.uint32(0x55555555)
                )
                cuda.atomic.add(pairs, 3 * copies + others, cuda.popc(matches & swapped & swapped >> np.uint32(1)))
    cuda.syncthreads()
    if thread > 0:
        return
    doubles = float(pairs[4])
    both = float(2 * pairs[8] + pairs[7] + pairs[5])
    first = float(2 * pairs[6] + pairs[7] + pairs[3])
    second = float(2 * pairs[2] + pairs[5] + pairs[1])
    neither = float(2 * (pairs[0] - padding) + pairs[3] + pairs[1])
    total = max(both + first + second + neither + 2 * doubles, 1.0)
    coupled = coupled_of(doubles, (both, first, second, neither))
    share, other_share = (both + first + doubles) / total, (both + second + doubles) / total
    variance = share * (1 - share) * other_share * (1 - other_share)
    covariance = (both + coupled) / total - share * other_share
    squared[variant] = covariance * covariance / variance if variance > 0 else np.nan


def _square_haplotypes(packed: Any, index: int, padding: int, squared: Any) -> None:
    from pipeline.kernels.linkage import haplotype_r_squared

    squared[:] = haplotype_r_squared(packed, 4 * packed.shape[1] - padding, int(index))


haplotype_squares = DeviceKernel(
    square_haplotypes,
    "uint8[:,::1] int64 int64 float64[::1]",
    _square_haplotypes,
    128,
    helpers=(four_bytes, cubic_at, log_likelihood_of, coupled_of),
)
"""Write r^2 of the haplotypes of variant `index` with every variant, `squared: float64[v]`; v blocks. `padding` as in `linked_pairs`."""
