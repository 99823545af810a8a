"""Exponential smoothing by statsmodels: every model that a series can have is fitted, and the one of the least AICc forecasts it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple

import numpy as np

from pipeline.stages.models._series.baselines import Forecasts

LEAST_VALUES = 10  # statsmodels' first guess of level and trend takes so many values, and two seasons
SQUARED = 400  # a power of two whose square is a double, with room for sums
SIMULATED = 1_000  # paths from which intervals are taken that have no formula


class Kind(NamedTuple):
    """A model of exponential smoothing: the kinds of its error, trend and season."""

    error: str
    trend: str
    season: str

    def __str__(self) -> str:
        short = {"none": "N", "add": "A", "damped": "Ad", "mul": "M"}
        return f"ETS({','.join(short[part] for part in self)})"


@dataclass(frozen=True)
class Smoothed:
    """The model that was chosen, its AICc and smoothing parameters (alpha, beta, gamma, phi), and its forecasts."""

    kind: Kind
    aicc: float
    parameters: dict[str, float] = field(default_factory=dict)
    forecasts: Forecasts | None = None


def kinds(values: Any, season: int, *, multiplicative: bool) -> Iterator[Kind]:
    """The models that a series can have: as forecast::ets has them, without those that are unstable (additive error, multiplied season)."""
    seasonal = season > 1 and len(values) >= 2 * season
    for error in ("add", "mul") if multiplicative and values.min() > 0 else ("add",):
        for of_season in ("none", *(("add", "mul") if error == "mul" else ("add",))) if seasonal else ("none",):
            for trend in ("none", "add", "damped"):
                yield Kind(error, trend, of_season)


def smoothed(values: Any, horizon: int, season: int, level: float, *, multiplicative: bool, seed: int) -> Smoothed | None:
    """The best model of a series and its forecasts; None where no model has a finite AICc. Values must vary, LEAST_VALUES at least."""
    power = int(np.frexp(np.abs(values).max())[1])
    power = power if abs(power) > SQUARED else 0
    best: tuple[float, Kind, Any] | None = None
    values = np.ldexp(values, -power)
    for kind in kinds(values, season, multiplicative=multiplicative):
        aicc, fitted = _fitted(values, kind, season)
        if np.isfinite(aicc) and (best is None or aicc < best[0]):
            best = aicc, kind, fitted
    if best is None:
        return None
    aicc, kind, fitted = best
    names = {"smoothing_level": "alpha", "smoothing_trend": "beta", "smoothing_seasonal": "gamma", "damping_trend": "phi"}
    told = zip(fitted.model.param_names, fitted.params, strict=True)
    found, ahead = {names[name]: float(value) for name, value in told if name in names}, _ahead(fitted, horizon, level, seed)
    ahead = Forecasts(*(np.ldexp(part, power) for part in (ahead.mean, ahead.lower, ahead.upper)))
    return Smoothed(kind, aicc + 2 * len(values) * power * log(2), found, ahead)


def _fitted(values: Any, kind: Kind, season: int) -> tuple[float, Any]:
    """AICc and results of one model; infinity where there are too few values for its parameters. Its intervals want pandas' series."""
    import pandas as pd
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    trend = {"trend": None if kind.trend == "none" else "add", "damped_trend": kind.trend == "damped"}
    seasonal = {} if kind.season == "none" else {"seasonal": kind.season, "seasonal_periods": season}
    model = ETSModel(pd.Series(values), error=kind.error, **trend, **seasonal)
    if len(values) <= model.k_params + 2:
        return np.inf, None
    with np.errstate(all="ignore"):
        fitted = model.fit(disp=False, warn_convergence=False)
    return float(fitted.aicc), fitted


def _ahead(fitted: Any, horizon: int, level: float, seed: int) -> Forecasts:
    """Means and intervals: by formula where the class has one, else quantiles of simulated paths."""
    count = int(fitted.nobs)
    with np.errstate(all="ignore"):
        found = fitted.get_prediction(count, count + horizon - 1, simulate_repetitions=SIMULATED, random_state=seed)
        lower, upper = np.asarray(found.pred_int(1 - level)).T
    return Forecasts(np.asarray(found.predicted_mean), lower, upper)
