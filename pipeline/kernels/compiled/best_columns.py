"""The greatest numbers of each row of a matrix, in a look at every number: what the last of them is, and which they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled


@compiled
def nth_greatest(found: Any, n: int, sign: float, nth: Any) -> None:
    """Writes the n-th greatest of each row of `sign * found: float64[r, c]` to `nth: float64[r]`; -inf where fewer are above that."""
    best = np.empty(n)  # of a row so far, the greatest first
    for row in range(len(found)):
        best[:] = -np.inf
        for value in found[row]:
            value *= sign
            if value > best[n - 1]:
                at = n - 1
                while at > 0 and best[at - 1] < value:
                    best[at] = best[at - 1]
                    at -= 1
                best[at] = value
        nth[row] = best[n - 1]


@compiled
def take_from(found: Any, rows: Any, least: Any, chosen: Any) -> None:
    """Writes the columns of numbers of at least `least: float64[r]`, of rows that have as many: `chosen: int64[rows, count]`, of 0.

    Of a row whose least is -inf those above that come first, then others up to the count.
    """
    count = chosen.shape[1]
    for place in range(len(rows)):
        values, low, at = found[rows[place]], least[rows[place]], 0
        for column in range(len(values)):
            if at < count and values[column] >= low and values[column] > -np.inf:
                chosen[place, at] = column
                at += 1
        for column in range(len(values)):
            if at < count and values[column] == -np.inf:
                chosen[place, at] = column
                at += 1
