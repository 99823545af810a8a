"""Forecasts that any other must beat, with their intervals, and how well forecasts fit. Hyndman & Athanasopoulos, fpp3, chapter 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Forecasts:
    """The next values of a series and an interval of each, float64 `[horizon]`; NaN where there is no interval."""

    mean: Array
    lower: Array
    upper: Array

    @staticmethod
    def around(mean: Array, error: Array, z: float) -> Forecasts:
        """With normal intervals of `z` standard errors."""
        return Forecasts(mean, mean - z * error, mean + z * error)


def seasonal_naive(values: Array, horizon: int, season: int, z: float) -> Forecasts:
    """The value of one season before; of season 1 the last value. The error grows with the root of the seasons ahead (table 5.2)."""
    ahead = np.arange(horizon)
    sigma = _spread(values[season:] - values[:-season], 0)
    return Forecasts.around(values[len(values) - season + ahead % season], sigma * np.sqrt(ahead // season + 1), z)


def drift(values: Array, horizon: int, z: float) -> Forecasts:
    """The line from the first value through the last one; its error is that of table 5.2."""
    between = len(values) - 1
    slope, ahead = (values[-1] - values[0]) / between, np.arange(1, horizon + 1)
    sigma = _spread(np.diff(values) - slope, 1)
    return Forecasts.around(values[-1] + slope * ahead, sigma * np.sqrt(ahead * (1 + ahead / between)), z)


def _spread(residuals: Array, estimated: int) -> float:
    """The standard deviation of residuals after so many parameters were estimated; NaN where none is left (5.5)."""
    free = len(residuals) - estimated
    if free <= 0:
        return float("nan")
    power = int(np.frexp(np.abs(residuals).max())[1])  # so that squares are doubles
    return float(np.ldexp(np.sqrt((np.ldexp(residuals, -power) ** 2).sum() / free), power))


def measured(truth: Array, found: Forecasts, before: Array, season: int) -> tuple[float, float, float]:
    """MASE, sMAPE in percent, and the share of values inside their intervals; NaN for one that cannot be told.

    MASE (Hyndman & Koehler 2006, Int J Forecast 22:679-688) is the mean absolute error over that of the seasonal naive forecast, one step
    ahead, on the values `before`. Where both a value and its forecast are 0 their sMAPE is 0.
    """
    error, both = np.abs(truth - found.mean), np.abs(truth) + np.abs(found.mean)
    lag = season if len(before) > season else 1
    scale = float(np.abs(before[lag:] - before[:-lag]).mean()) if len(before) > lag else 0.0
    inside = (found.lower <= truth) & (truth <= found.upper)
    return (
        float(error.mean()) / scale if scale > 0 else float("nan"),
        float(np.divide(200 * error, both, out=np.zeros_like(error), where=both > 0).mean()),
        float("nan") if np.isnan(found.lower).any() else float(inside.mean()),
    )
