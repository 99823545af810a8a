"""Windows: for every row a stretch [low, high) of an array, and what is in it: sums, spreads, extremes, the nth smallest value.

Sums are put together from those of stretches of 1, 2, 4, ... values, so that a window's sum depends on its own values alone: what is
subtracted again from a running sum leaves its rounding behind. All are array functions, NumPy or CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module

HALF = 32
MASK = 2**HALF - 1
LEAST, MOST = -(2**63), 2**62
MANY = 100_000  # windows from which on compiled code pays


def first_from(times: Any, starts: Any, ends: Any, wanted: Any, *, after: bool = False) -> Any:
    """Per row the first index in [start, end) whose time is `wanted` or later (`after`: later), else `end`; times ascend there.

    Groups stand one after another, so where 64 bits hold it, times of later groups are made later, and one search finds all.
    """
    xp = array_module(times)
    inside = xp.arange(len(times)) < ends
    if not bool(inside.any()):
        return xp.minimum(starts, ends)
    low, high = int(times[inside].min()), int(times[inside].max())
    group = xp.cumsum(xp.concatenate([xp.zeros(1, np.int64), (starts[1:] != starts[:-1]).astype(np.int64)]))
    reach = high - low + 3
    if reach * (int(group[-1]) + 1) >= MOST:
        return _halved(times, starts, ends, wanted, after=after)
    place = group * reach + 1
    ordered = xp.where(inside, times - low, reach - 2) + place
    asked = xp.clip(wanted, max(low - 1, LEAST), min(high + 1, -LEAST - 1)) - low + place
    return xp.minimum(xp.searchsorted(ordered, asked, side="right" if after else "left"), ends)


def _halved(times: Any, starts: Any, ends: Any, wanted: Any, *, after: bool) -> Any:
    """The same by halving each row's stretch."""
    xp = array_module(times)
    low, high = starts.copy(), ends.copy()
    for _ in range(int((ends - starts).max()).bit_length()):
        middle = (low + high) // 2
        here = times[xp.minimum(middle, len(times) - 1)]
        before = (here <= wanted if after else here < wanted) & (low < high)
        low, high = xp.where(before, middle + 1, low), xp.where(before, high, xp.maximum(middle, low))
    return low


def window_sums(values: Any, low: Any, high: Any) -> Any:
    """The sum of every window, float64; 0 of an empty one."""
    xp = array_module(values)
    total = xp.zeros(len(low))
    if xp is np and len(low) >= MANY:
        from pipeline.kernels.compiled import windows

        windows.sums(values.astype(np.float64), low, high, total)
        return total

    def add(rows: Any, level: Any, places: Any, _step: int) -> None:
        """Stretches of so many windows."""
        total[rows] += level[places]

    _doubled(values, low, high, lambda level, step: level[:-step] + level[step:], add)
    return total


def window_least(codes: Any, low: Any, high: Any) -> Any:
    """The least code of every window, int64; a number beyond all codes for an empty one."""
    xp = array_module(codes)
    least = xp.full(len(low), np.iinfo(np.int64).max, np.int64)

    def take(rows: Any, level: Any, places: Any, _step: int) -> None:
        """Stretches of so many windows."""
        least[rows] = xp.minimum(least[rows], level[places])

    _doubled(codes, low, high, lambda level, step: xp.minimum(level[:-step], level[step:]), take)
    return least


def window_squares(values: Any, low: Any, high: Any) -> Any:
    """The sum of squares about its mean of every window, float64.

    Two stretches are merged as in Chan, Golub & LeVeque (1983), Am Stat 37:242-247.
    """
    xp = array_module(values)
    if xp is np and len(low) >= MANY:
        from pipeline.kernels.compiled import windows

        found = np.zeros((len(low), 3))
        windows.squares(values.astype(np.float64), np.zeros(len(values)), low, high, found)
        return found[:, 2]
    count, mean, squares = (xp.zeros(len(low)) for _ in range(3))

    def merge(level: Any, step: int) -> Any:
        """Two stretches of the same length as one."""
        apart = level[0, step:] - level[0, :-step]
        return xp.stack([level[0, :-step] + apart / 2, level[1, :-step] + level[1, step:] + apart * apart * (step / 2)])

    def add(rows: Any, level: Any, places: Any, step: int) -> None:
        """Stretches of so many windows."""
        total = count[rows] + step
        apart = level[0, places] - mean[rows]
        squares[rows] += level[1, places] + apart * apart * (count[rows] * step / total)
        mean[rows] += apart * (step / total)
        count[rows] = total

    _doubled(xp.stack([values, xp.zeros(len(values))]), low, high, merge, add)
    return squares


def _doubled(level: Any, low: Any, high: Any, merge: Callable[[Any, int], Any], take: Callable[[Any, Any, Any, int], None]) -> None:
    """Cut every window into stretches of 1, 2, 4, ... values and `take` each; `merge` makes the longer stretches of the shorter."""
    place, length, step = low.copy(), high - low, 1
    longest = int(length.max()) if len(length) else 0
    with np.errstate(over="ignore", invalid="ignore"):
        while step <= longest:
            rows = array_module(low).nonzero(length & step)[0]
            take(rows, level, place[rows], step)
            place[rows] += step
            if 2 * step <= longest:
                level = merge(level, step)
            step *= 2


def window_totals(values: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The sum of every window of 64-bit integers, exact: its upper bits and its lower 32, int64; sum = upper * 2**32 + lower."""
    xp = array_module(values)
    sums = []
    for half in (values >> HALF, values & MASK):
        running = xp.concatenate([xp.zeros(1, np.int64), xp.cumsum(half.astype(np.int64))])
        sums.append(running[high] - running[low])
    return sums[0] + (sums[1] >> HALF), sums[1] & MASK


def window_picks(ranks: Any, low: Any, high: Any, nth: Any) -> Any:
    """The rank that is the nth smallest (from 0) in every window; `ranks` is a permutation of 0 to n - 1.

    A wavelet matrix: the ranks are divided bit by bit from the highest on, and each window follows its nth into one half. Claude, Navarro
    & Ordonez (2015), Inf Syst 47:15-32. What comes of a window that has no such value means nothing.
    """
    xp = array_module(ranks)
    whole = np.int32 if len(ranks) < 2**31 else np.int64  # half the memory to go through
    low, high, nth, level = (array.astype(whole) for array in (low, high, nth, ranks))
    found = xp.zeros(len(low), np.int64)
    for bit in reversed(range(max(len(ranks) - 1, 0).bit_length())):
        is_zero = (level >> bit) & 1 == 0
        before = xp.concatenate([xp.zeros(1, whole), xp.cumsum(is_zero, dtype=whole)])
        first, last = before[low], before[high]
        zeros, all_zeros = last - first, before[-1]
        right = nth >= zeros
        found += right.astype(np.int64) << bit
        nth = nth - xp.where(right, zeros, 0)
        low, high = xp.where(right, all_zeros + low - first, first), xp.where(right, all_zeros + high - last, last)
        level = xp.concatenate([level[is_zero], level[~is_zero]])
    return found
