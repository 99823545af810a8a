"""How much is lost on bad days: value at risk and expected shortfall of returns, and whether days were as bad as said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtri, xlogy

Array = Any
ELEMENTS = 1 << 22  # of windows at once: 32 MiB


def historical_risk(windows: Array, level: float, horizon: int = 1) -> tuple[Array, Array]:
    """Value at risk and expected shortfall of each row of returns `float64[m, w]`, as losses: `float64[m]` each.

    The quantile 1 - level of the returns, on the line between the two next to it, and the mean of those not above it; over several
    periods both times the root of their number.
    """
    cut = np.quantile(windows, 1 - level, axis=1)
    below = windows <= cut[:, None]
    short = np.where(below, windows, 0.0).sum(1) / below.sum(1)
    return -cut * np.sqrt(horizon), -short * np.sqrt(horizon)


def parametric_risk(windows: Array, level: float, horizon: int = 1) -> tuple[Array, Array]:
    """The same where returns are normal with each row's mean and standard deviation (n - 1), and independent from period to period."""
    mean, spread = windows.mean(1) * horizon, windows.std(1, ddof=1) * np.sqrt(horizon)
    z = float(ndtri(1 - level))
    density = float(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))
    return -(mean + z * spread), -(mean - spread * density / (1 - level))


def stretches(returns: Array, window: int) -> Iterator[Array]:
    """Every stretch of `window` returns that has one after it, in their order: blocks `float64[m, window]`."""
    windows = np.lib.stride_tricks.sliding_window_view(returns[:-1], window) if len(returns) > window else np.empty((0, window))
    size = max(1, ELEMENTS // window)
    for start in range(0, len(windows), size):
        yield windows[start : start + size]


def kupiec_p_value(days: int, exceeded: int, level: float) -> float:
    """How likely so many, or stranger numbers, are where each day exceeds with 1 - level: Kupiec's test (1995, J Derivatives 3:73-84)."""
    if days == 0:
        return float("nan")
    share, rate = 1 - level, exceeded / days
    told = xlogy(exceeded, share) + xlogy(days - exceeded, 1 - share)
    best = xlogy(exceeded, rate) + xlogy(days - exceeded, 1 - rate)
    return float(chdtrc(1, max(0.0, 2 * (best - told))))
