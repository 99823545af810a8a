"""Linkage disequilibrium by counting bits: two planes of a bit a person for each variant, and the windows of pruning over them.

A person's call stands in the planes as homozygous or not, and as homozygous REF or heterozygous or not; no bit in either is a missing call.
In the sums homozygous REF counts 1, heterozygous 0 and homozygous ALT -1, which gives the same r^2 as counts of ALT alleles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined, popcount

_LOW_BITS = np.uint64(0x5555555555555555)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_START: Any = np.int64(0)  # not 0: what is called with a literal is compiled for it, and once more for any number


class Ring(NamedTuple):
    """The variants of a window by their number modulo its length: planes and people called, sums of calls and of squares."""

    planes: NDArray[np.uint64]  # [slots, 2, words]
    sums: NDArray[np.int64]  # [slots, 3]
    major: NDArray[np.float64]  # [slots], frequency of the commoner allele
    judged: NDArray[np.int64]  # [slots], the first variant that it was not compared with yet
    live: NDArray[np.int64]  # [slots], numbers of the variants that are still in the window
    words: NDArray[np.uint64]  # [2 words], the packed calls of the variant that is read


@inlined
def split_planes(
    words: NDArray[np.uint64], masks: NDArray[np.uint64], planes: NDArray[np.uint64], slot: int
) -> tuple[np.int64, np.int64, np.int64, float]:
    """Put the planes of a variant, whose packed calls are `words`, into a slot: people called, sum, squares, commoner allele's frequency.

    `masks[2, words]`: whose calls count at all, and whose heterozygous calls are none (the frequency still counts them).
    """
    called, squares, plus, everybody = _ZERO, _ZERO, _ZERO, _ZERO
    for word in range(masks.shape[1]):
        first, second = words[2 * word], words[2 * word + 1]
        low = (first & _LOW_BITS) | ((second & _LOW_BITS) << _ONE)
        high = ((first >> _ONE) & _LOW_BITS) | (second & ~_LOW_BITS)
        present = masks[0, word] & ~(low & high)
        everybody += popcount(present)
        homozygous = present & ~low
        not_alt = present & ~high & (homozygous | ~masks[1, word])
        called += popcount(homozygous | not_alt)
        squares += popcount(homozygous)
        plus += popcount(homozygous & not_alt)
        planes[slot, 0, word], planes[slot, 1, word] = homozygous, not_alt
    total = 2 * np.int64(plus) - np.int64(squares)
    return np.int64(called), total, np.int64(squares), 0.5 + abs(total) / (2.0 * everybody)


@inlined
def complete_product(planes: NDArray[np.uint64], first: int, second: int) -> np.int64:
    """Sum of the products of the calls of the variants in two slots of `planes[slots, 2, words]`."""
    both, unlike = _ZERO, _ZERO
    for word in range(planes.shape[2]):
        homozygous = planes[first, 0, word] & planes[second, 0, word]
        both += popcount(homozygous)
        unlike += popcount(homozygous & (planes[first, 1, word] ^ planes[second, 1, word]))
    return np.int64(both) - 2 * np.int64(unlike)


@inlined
def pair_sums(planes: NDArray[np.uint64], first: int, second: int) -> tuple[np.int64, np.int64, np.int64, np.int64, np.int64, np.int64]:
    """Of the people called for both variants: their number, the sum and squares of the first and of the second, and the products."""
    both, unlike, called, squares_1, plus_1, squares_2, plus_2 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
    for word in range(planes.shape[2]):
        hom_1, ref_1, hom_2, ref_2 = planes[first, 0, word], planes[first, 1, word], planes[second, 0, word], planes[second, 1, word]
        homozygous = hom_1 & hom_2
        both += popcount(homozygous)
        unlike += popcount(homozygous & (ref_1 ^ ref_2))
        called_1, called_2 = hom_1 | ref_1, hom_2 | ref_2
        called += popcount(called_1 & called_2)
        shared_1, shared_2 = hom_1 & called_2, hom_2 & called_1
        squares_1 += popcount(shared_1)
        plus_1 += popcount(shared_1 & ref_1)
        squares_2 += popcount(shared_2)
        plus_2 += popcount(shared_2 & ref_2)
    total_1, total_2 = 2 * np.int64(plus_1) - np.int64(squares_1), 2 * np.int64(plus_2) - np.int64(squares_2)
    product = np.int64(both) - 2 * np.int64(unlike)
    return np.int64(called), total_1, np.int64(squares_1), total_2, np.int64(squares_2), product


@inlined
def moments(planes: NDArray[np.uint64], sums: NDArray[np.int64], first: int, second: int, people: int) -> tuple[float, float, float]:
    """Covariance and variances of the variants in two slots, times the square of the people called for both: whole numbers."""
    if sums[first, 0] == people and sums[second, 0] == people:
        product = complete_product(planes, first, second)
        called, sum_1, squares_1, sum_2, squares_2 = np.int64(people), sums[first, 1], sums[first, 2], sums[second, 1], sums[second, 2]
    else:
        called, sum_1, squares_1, sum_2, squares_2, product = pair_sums(planes, first, second)
    variance_1, variance_2 = float(squares_1 * called - sum_1 * sum_1), float(squares_2 * called - sum_2 * sum_2)
    return float(product * called - sum_1 * sum_2), variance_1, variance_2


@compiled
def pass_window(ring: Ring, live: int, end: int, removed: NDArray[np.bool_], limits: tuple[int, float, float]) -> bool:
    """Compare each variant of the window with those after it, up to the first that it is linked with; whether any was removed.

    `limits`: people, the limit of r^2 and how much more frequent a commoner allele must be to count as such.
    """
    people, limit, more = limits
    # Names of their own: attributes of a tuple in a loop hold up the compiled code.
    planes, sums, major, judged, numbers = ring.planes, ring.sums, ring.major, ring.judged, ring.live
    slots, changed = len(numbers), False
    for at in range(live):
        number = numbers[at]
        slot = number % slots
        unjudged = judged[slot]
        if removed[number] or unjudged >= end:
            continue
        judged[slot] = end
        for place in range(at + 1, live):
            other = numbers[place]
            if other < unjudged or removed[other]:
                continue
            covariance, variance, other_variance = moments(planes, sums, slot, other % slots, people)
            if covariance * covariance > limit * variance * other_variance:
                judged[slot] = other + 1
                removed[number if major[slot] > major[other % slots] * more else other] = changed = True
                break
    return changed


@compiled
def window_end(positions: NDArray[np.int64], start: int, end: int, size: int, by_position: bool) -> int:
    """One past the last variant of the window from `start` on; a window in variants may end beyond the last of them."""
    if not by_position:
        return start + size
    while end < len(positions) and positions[end] <= positions[start] + size:
        end += 1
    return end


@compiled
def most_in_window(positions: NDArray[np.int64], size: int, by_position: bool) -> int:
    """Variants of the largest window."""
    if not by_position:
        return max(1, min(size, len(positions)))
    end, most = _START, 1
    for start in range(len(positions)):
        end = window_end(positions, start, end, size, by_position)
        most = max(most, end - start)
    return most


@compiled
def empty_ring(slots: int, words: int) -> Ring:
    """A ring of so many variants."""
    planes, sums = np.zeros((slots, 2, words), np.uint64), np.zeros((slots, 3), np.int64)
    return Ring(planes, sums, np.zeros(slots), np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(2 * words, np.uint64))


@compiled
def prune_windows(
    calls: NDArray[np.uint8],
    known: tuple[NDArray[np.int64], NDArray[np.float64]],
    masks: NDArray[np.uint64],
    rule: tuple[int, int, bool, float, float, int],
    flags: NDArray[np.bool_],
    progress: tuple[int, bool],
) -> tuple[int, int]:
    """Walk the windows over `calls: uint8[v, w]` of one chromosome; `flags: bool[2, v]` get the removed and the constant variants.

    `known`: positions, and frequencies of the commoner alleles, `float64[v]`, or none where calls tell them. `rule`: the window's size and
    step, whether the size is in base pairs, the limit of r^2, how much commoner a commoner allele is, people.
    `progress`: how many variants of the first window were compared with one another before, and whether no variant follows.
    Answers where the first window begins that could not be walked yet, and how many variants were compared with one another.
    """
    size, step, by_position, limit, more, people = rule
    judged, final = progress
    positions, major = known
    removed, count = flags[0], len(calls)
    ring = empty_ring(most_in_window(positions, size, by_position), masks.shape[1])
    live = filled = start = end = _START
    while start < count:
        end = window_end(positions, start, max(end, start), size, by_position)
        if end > count or (end == count and by_position):
            if not final:
                break
            end = count
        live = fill_window(calls, (masks, major), ring, (filled, end, judged, live), flags)
        filled = max(filled, end)
        while pass_window(ring, live, end, removed, (people, limit, more)):
            pass
        judged = end
        if end == count and (final or by_position):
            return count, count
        start = next_start(positions, start, end, size if by_position else -step)
        live = keep_live(ring.live, live, start, removed)
    return start, max(judged, start)


@compiled
def fill_window(
    calls: NDArray[np.uint8],
    known: tuple[NDArray[np.uint64], NDArray[np.float64]],
    ring: Ring,
    numbers: tuple[int, int, int, int],
    flags: NDArray[np.bool_],
) -> int:
    """Put the variants `numbers` = (from, to, judged, live) into the ring; answers how many are live then. Constant ones never are."""
    first, end, judged, live = numbers
    masks, major = known
    planes, sums, words = ring.planes, ring.sums, ring.words
    slots, padded = len(ring.live), words.view(np.uint8)
    for number in range(first, end):
        if flags[0, number]:
            continue
        slot = number % slots
        for byte in range(calls.shape[1]):
            padded[byte] = calls[number, byte]
        called, total, squares, ring.major[slot] = split_planes(words, masks, planes, slot)
        if len(major):
            ring.major[slot] = major[number]
        sums[slot, 0], sums[slot, 1], sums[slot, 2] = called, total, squares
        ring.judged[slot] = max(number + 1, judged)
        flags[1, number] = squares == 0 or abs(total) == called
        if not flags[1, number]:
            ring.live[live] = number
            live += 1
    return live


@compiled
def next_start(positions: NDArray[np.int64], start: int, end: int, reach: int) -> int:
    """Where the next window begins: the least that lets its end move, or (`reach` negative) so many variants on."""
    if reach < 0:
        return start - reach
    start += 1
    while positions[start] < positions[end] - reach:
        start += 1
    return start


@compiled
def keep_live(live: NDArray[np.int64], count: int, start: int, removed: NDArray[np.bool_]) -> int:
    """Move the live variants from `start` on that stay to the front; answers how many."""
    kept = 0
    for place in range(count):
        if live[place] >= start and not removed[live[place]]:
            live[kept] = live[place]
            kept += 1
    return kept
