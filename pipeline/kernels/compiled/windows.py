"""Sums and squares of windows, put together stretch by stretch as `kernels.windows` does: the same to the last bit."""

from __future__ import annotations

from typing import Any

from pipeline.kernels.compiled.jit import compiled


@compiled
def sums(level: Any, low: Any, high: Any, total: Any) -> None:
    """Adds each window's sum to `total: float64[n]`; `level: float64[values]` is used up, `low, high: int64[n]`."""
    longest, step, height = 0, 1, len(level)
    for row in range(len(low)):
        longest = max(longest, high[row] - low[row])
    while step <= longest:
        for row in range(len(low)):
            length = high[row] - low[row]
            if length & step:  # what is shorter lies before it
                total[row] += level[low[row] + (length & (step - 1))]
        height -= step
        if 2 * step <= longest:
            for at in range(height):
                level[at] += level[at + step]
        step *= 2


@compiled
def squares(mean: Any, square: Any, low: Any, high: Any, found: Any) -> None:
    """Puts each window's sum of squares about its mean into `found: float64[n, 3]`: count, mean and squares of what was taken so far.

    `mean: float64[values]` are the values and `square: float64[values]` zeros; both are used up.
    """
    longest, step, height = 0, 1, len(mean)
    for row in range(len(low)):
        longest = max(longest, high[row] - low[row])
    while step <= longest:
        for row in range(len(low)):
            length = high[row] - low[row]
            if length & step:
                place, count = low[row] + (length & (step - 1)), found[row, 0]
                total = count + step
                apart = mean[place] - found[row, 1]
                found[row, 2] += square[place] + apart * apart * (count * step / total)
                found[row, 1] += apart * (step / total)
                found[row, 0] = total
        height -= step
        if 2 * step <= longest:
            for at in range(height):
                apart = mean[at + step] - mean[at]
                mean[at] += apart / 2
                square[at] = square[at] + square[at + step] + apart * apart * (step / 2)
        step *= 2
