"""Forecasts of one series: the method asked for where the series lets it be, else a naive one; measured on its last values where asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from pipeline.stages.models._series.baselines import Forecasts, drift, measured, seasonal_naive
from pipeline.stages.models._series.ets import LEAST_VALUES, smoothed

Method = Literal["seasonal_naive", "drift", "ets"]
NAIVE = "naive_"  # before the measures of the seasonal naive forecast, beside which others stand
MEASURES = ("mase", "smape", "coverage")


@dataclass(frozen=True)
class Way:
    """How series are to be forecast."""

    method: Method
    horizon: int
    season: int
    level: float
    multiplicative: bool
    seed: int

    @property
    def z(self) -> float:
        """Standard errors on each side of a forecast."""
        return NormalDist().inv_cdf((1 + self.level) / 2)


@dataclass(frozen=True)
class Found:
    """The forecasts of a series: by which method and model, and for which reason (short, constant, failed) by a naive one instead."""

    forecasts: Forecasts
    method: str
    reason: str | None = None
    model: str | None = None
    about: Mapping[str, float] = field(default_factory=dict)


def found(values: Any, way: Way, horizon: int) -> Found:
    """The next values of a series, which has one at least."""
    if len(values) > 1 and np.ptp(values) == 0:
        return _naive(values, way, horizon, "constant")
    if way.method == "drift" and len(values) > 2:
        return Found(drift(values, horizon, way.z), "drift")
    if way.method == "seasonal_naive" and len(values) > way.season:
        return Found(seasonal_naive(values, horizon, way.season, way.z), "seasonal_naive")
    if way.method == "ets" and len(values) >= LEAST_VALUES:
        best = smoothed(values, horizon, way.season, way.level, multiplicative=way.multiplicative, seed=way.seed)
        if best is None or best.forecasts is None:
            return _naive(values, way, horizon, "failed")
        return Found(best.forecasts, "ets", None, str(best.kind), {"aicc": best.aicc, **best.parameters})
    return _naive(values, way, horizon, "short")


def _naive(values: Any, way: Way, horizon: int, reason: str) -> Found:
    """The value a season before where there are so many, else the last one."""
    season = way.season if len(values) > way.season and reason != "constant" else 1
    method = "seasonal_naive" if season > 1 else "naive"
    return Found(seasonal_naive(values, horizon, season, way.z), method, reason)


@dataclass(frozen=True)
class HeldOut:
    """What the last values of a series would have been forecast as, and how well: measures by name, those of the seasonal naive beside."""

    forecasts: Forecasts
    measures: Mapping[str, float]


def held_out(values: Any, way: Way, holdout: int) -> HeldOut | None:
    """Forecasts of the last `holdout` values from those before; None where there are none before, or nothing to hold out."""
    before, after = values[: len(values) - holdout], values[len(values) - holdout :]
    if not holdout or len(before) == 0 or len(after) < holdout:
        return None
    ours = found(before, way, holdout).forecasts
    beside = _naive(before, way, holdout, "").forecasts
    measures = zip(MEASURES, measured(after, ours, before, way.season), strict=True)
    naive = zip(MEASURES, measured(after, beside, before, way.season), strict=True)
    return HeldOut(ours, {**dict(measures), **{NAIVE + name: value for name, value in naive}})
