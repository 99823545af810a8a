"""Where a falling function of one number is 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_MOST_STEPS = 100


def falling_root(slope: Callable[[float], float], middle: float, wide: float) -> float:
    """Where a falling function is 0, within `wide` of a place or farther; NaN where it is nowhere near."""
    low, high = middle - wide, middle + wide
    while slope(low) < 0 or slope(high) > 0:
        low, high = low - wide, high + wide
        if high - low > 1e3 * wide:
            return np.nan
    return between(slope, (low, high), 1e-12 * wide)


def between(slope: Callable[[float], float], ends: tuple[float, float], near: float) -> float:
    """Where a falling function is 0, to `near`, between two places, by the Illinois method (Dowell & Jarratt 1971, BIT 11:168-174).

    SciPy's own would be half a second of every scan's start.
    """
    (low, high), at, side = ends, ends[0], 0.0
    above, below = slope(low), slope(high)
    for _ in range(_MOST_STEPS):
        before, at = at, (low * below - high * above) / (below - above) if above > below else low
        value = slope(at)
        if value == 0 or abs(at - before) <= near:
            break
        again = np.sign(value) == side  # the same end moves twice: the other one's value counts half
        if value > 0:
            low, above, below = at, value, below / 2 if again else below
        else:
            high, below, above = at, value, above / 2 if again else above
        side = np.sign(value)
    return at
