"""What was found of each series, as the tables that are published of it, and its sums over all series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._series.methods import MEASURES, NAIVE, Found, HeldOut, Way, found, held_out
from pipeline.stages.models._series.series import Regular

VALUES = ("observed", "mean", "lower", "upper")
TEXTS = ("method", "model", "reason")
NUMBERS = ("observations", "filled")
PARAMETERS = ("aicc", "alpha", "beta", "gamma", "phi")
MEASURED = (*MEASURES, *(NAIVE + name for name in MEASURES))
REASONS = ("short", "constant", "failed", "empty")
FIT = {**dict.fromkeys(TEXTS, pl.String()), **dict.fromkeys(NUMBERS, pl.Int64()), **dict.fromkeys((*PARAMETERS, *MEASURED), pl.Float64())}


@dataclass(frozen=True)
class Forecasted:
    """A series with what was found of it; without a series there was no value."""

    series: Regular | None
    found: Found | None
    held_out: HeldOut | None

    @staticmethod
    def of(series: Regular | None, way: Way, holdout: int) -> Forecasted:
        """The forecasts of a series, and of its last `holdout` values from those before."""
        if series is None:
            return Forecasted(None, None, None)
        return Forecasted(series, found(series.values, way, way.horizon), held_out(series.values, way, holdout))

    def fit(self) -> dict[str, Any]:
        """Its row of fits, but for its key."""
        if self.series is None or self.found is None:
            return {"reason": "empty", "observations": 0, "filled": 0}
        texts = {"method": self.found.method, "model": self.found.model, "reason": self.found.reason}
        numbers = {"observations": len(self.series.values) - self.series.filled, "filled": self.series.filled}
        return {**texts, **numbers, **self.found.about, **(self.held_out.measures if self.held_out else {})}

    def rows(self, history: int) -> tuple[Any, Any]:
        """Times `int64[n]` and VALUES `float64[n, 4]`, NaN where there is none, of its last `history` steps and of those ahead."""
        if self.series is None or self.found is None:
            return np.empty(0, np.int64), np.empty((0, len(VALUES)))
        last = len(self.series.values)
        shown, ahead = min(history, last), self.found.forecasts
        table = np.full((shown + len(ahead.mean), len(VALUES)), np.nan)
        table[:shown, 0] = self.series.values[last - shown :]
        table[shown:, 1:] = np.column_stack([ahead.mean, ahead.lower, ahead.upper])
        if self.held_out is not None:
            then = self.held_out.forecasts
            known = np.column_stack([then.mean, then.lower, then.upper])[-shown:] if shown else np.empty((0, 3))
            table[shown - len(known) : shown, 1:] = known
        return self.series.ahead(last - shown, len(table)), table


def forecast_rows(keys: pl.DataFrame, made: Sequence[Forecasted], time: tuple[str, pl.DataType], history: int) -> pl.DataFrame:
    """A row a step of every series: its key, the time, and VALUES."""
    pieces = [one.rows(history) for one in made]
    lengths = [len(times) for times, _ in pieces]
    times = np.concatenate([times for times, _ in pieces] or [np.empty(0, np.int64)])
    values = np.concatenate([values for _, values in pieces] or [np.empty((0, len(VALUES)))])
    name, dtype = time
    columns = [pl.Series(column, np.ascontiguousarray(values[:, at])).fill_nan(None) for at, column in enumerate(VALUES)]
    named = keys[np.repeat(np.arange(len(made)), lengths)] if keys.width else keys
    return pl.DataFrame([*named.get_columns(), _of_type(pl.Series(name, times), dtype), *columns])


def _of_type(times: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Times in the type of their column. Raises DataError for those beyond it."""
    found = times.cast(pl.Int32 if dtype == pl.Date else dtype if dtype.is_integer() else pl.Int64, strict=False)
    if found.has_nulls():
        beyond = times.filter(found.is_null())[0]
        raise DataError(f"{times.name!r} would be {beyond}, which {dtype} does not hold. Cast it before, or take a smaller horizon.")
    return found.cast(dtype)


def fit_rows(keys: pl.DataFrame, made: Sequence[Forecasted]) -> pl.DataFrame:
    """A row a series: its key, and how it was forecast."""
    fits = pl.DataFrame([one.fit() for one in made], schema=FIT).with_columns(pl.col(pl.Float64).fill_nan(None))
    return pl.DataFrame([*keys.get_columns(), *fits.get_columns()])


def counted(fits: pl.DataFrame, *, measured: bool) -> dict[str, int]:
    """How many series there are, by what became of them; and the steps that were filled."""
    counts = {"series": fits.height, "steps_filled": int(fits["filled"].sum())}
    counts |= {f"series_{reason}": int((fits["reason"] == reason).sum()) for reason in REASONS}
    if measured:
        counts["series_not_measured"] = int(fits["smape"].is_null().sum())
    return {name: count for name, count in counts.items() if count or name == "series"}


def averaged(fits: pl.DataFrame, method: str) -> Mapping[str, Mapping[str, float | None]]:
    """The mean of each measure over the series that have it, of the method and of the seasonal naive beside it."""
    rows = {method: "", **({"seasonal_naive": NAIVE} if method != "seasonal_naive" else {})}
    return {row: {name: _mean(fits[before + name]) for name in MEASURES} for row, before in rows.items()}


def _mean(values: pl.Series) -> float | None:
    """The exact sum over the number: the same in any order."""
    known = values.drop_nulls().to_list()
    return fsum(known) / len(known) if known else None
