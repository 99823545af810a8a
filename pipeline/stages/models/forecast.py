"""Forecasts of many series at once: the seasonal naive, the drift, or exponential smoothing chosen for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import itemgetter
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Whole, need_columns, need_keys, need_numeric
from pipeline.stages.models._classical import need_statsmodels
from pipeline.stages.models._series.methods import Method, Way
from pipeline.stages.models._series.series import Gaps, Raw, Regular
from pipeline.stages.models._series.tables import FIT, VALUES, Forecasted, averaged, counted, fit_rows, forecast_rows
from pipeline.stages.models._series.time_steps import Clock, Spacing, Step
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.rounds import Round, Rounds
from pipeline.tables.table import Table

ONE_SERIES = "the series"


class Forecast(Whole, name="forecast", version=1):
    """Forecast each series of a table by its own past: a row a step ahead, with an interval.

    `seasonal_naive` repeats the last season, `drift` goes on along the line from the first value through the last one, `ets` fits models of
    exponential smoothing (statsmodels) and takes that of the least AICc: additive or multiplied errors, no trend, a trend, a damped one, no
    season, an added or a multiplied one. A series too short for its method (3 values for drift, a season and one more for seasonal_naive,
    10 for ets, which takes seasons from two of them on) or constant is forecast by the seasonal naive or the last value, and counted.

    Times of a series stand one step apart: the greatest step that fits all series, months of the calendar where it can be, or `every`. A
    time that comes twice is refused, with its series. Rows with no value, or none that is finite, are as if they were not there; a gap is
    refused, or filled as `gaps` says.

    A row: the series, the time, `observed` (null ahead), mean, lower, upper. NAME.fit has a row per series: the method that was used, the
    reason where it is another, the model with its smoothing parameters, how many steps were observed and filled, and for the last `holdout`
    values, forecast from those before, MASE, sMAPE (percent) and the coverage of intervals, beside those of the seasonal naive.
    Every series is whole in one task; what comes out does not depend on how rows are divided. Needs the extra `classical` for ets.

    Example:
        {use: forecast, from: sales, as: ahead, series: [store], time: month, value: sold, horizon: 12, season: 12, holdout: 12}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "series": Count("series"),
        "steps_filled": Count("steps filled"),
        "series_short": Count("series too short"),
        "series_constant": Count("constant series"),
        "series_failed": Count("series that no model fits"),
        "series_empty": Count("series with no value"),
        "series_not_measured": Count("series too short to hold values out"),
    }

    time: ColumnName = Field(description="Column of dates, timestamps without a zone, or whole numbers.")
    value: ColumnName = Field(description="Column of numbers to forecast.")
    series: ColumnNames | None = Field(None, description="Columns that name a series; all rows are one where none is given.")
    method: Method = Field("ets", description="How series are forecast.")
    horizon: int = Field(ge=1, le=100_000, description="Steps ahead.")
    season: int = Field(1, ge=1, le=10_000, description="Steps of a season: 12 of months in a year; 1 for none.")
    holdout: int = Field(0, ge=0, le=100_000, description="Last values of each series to measure forecasts by.")
    every: str | None = Field(None, description="The step: 1mo, 1q, 1y, 1w, 1d, 15m, or a number for whole numbers; found where not given.")
    gaps: Gaps = Field("refuse", description="Steps with no value: refused, the value before, on the line between its neighbours, or 0.")
    multiplicative: bool = Field(True, description="ets: errors and seasons may be multiplied too, where all values are above 0.")
    level: float = Field(0.95, gt=0, lt=1, description="Share of values that an interval shall hold.")
    history: int = Field(0, ge=0, description="Last observed steps of each series to give before its forecasts; held-out ones with theirs.")

    @property
    def keys(self) -> list[str]:
        """The columns that name a series."""
        return [*(self.series or ())]

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Forecasts and fits. Raises StageError for columns that cannot be what they are said to be; PlaceError without statsmodels."""
        columns = schemas["rows"].columns
        need_keys(schemas["rows"], self.keys, key="series")
        need_columns(schemas["rows"], [self.time], key="time")
        need_numeric(schemas["rows"], [self.value], key="value")
        clock = Clock.of(self.time, columns[self.time])
        if self.every is not None:
            clock.stated(self.every)
        if len({*self.keys, self.time, self.value}) < len(self.keys) + 2:
            raise StageError("series, time and value name a column twice; each is a column of its own", key="series")
        keys = {name: columns[name] for name in self.keys}
        for name in (*keys, self.time):
            if name in VALUES or (name in FIT and name in keys):
                raise StageError(f"column {name!r} has the name of a column of the forecasts or fits. Rename it before.")
        if self.method == "ets":
            need_statsmodels()
        ahead = {self.time: columns[self.time], **dict.fromkeys(VALUES, pl.Float64())}
        return {"": Schema(pl.Schema({**keys, **ahead})), "fit": Schema(pl.Schema({**keys, **FIT}))}

    def prepare(self, *, lean: bool = False) -> None:
        """Import statsmodels where it is used."""
        if self.method == "ets":
            import_module("statsmodels.tsa.exponential_smoothing.ets")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """An exchange by the series, a look at the times for their step, and a task for the series of each part."""
        submit, name, rows = context.session.submit, context.name, tables["rows"].named(context.name)
        assert rows.schema is not None
        clock = Clock.of(self.time, rows.schema.columns[self.time])
        chosen = rows.map(self._chosen, writes=frozenset({self.value}))
        whole = (chosen.exchange(self.keys) if self.keys else chosen.gather()).hold()
        step = clock.stated(self.every) if self.every is not None else whole.reduce(self._spacing, Spacing.merged, clock)
        made = [submit(self._made, part, clock, step, (name, context.seed), stage=name) for part in whole.futures()]
        forecasts, fits = ([submit(itemgetter(place), one, stage=name) for one in made] for place in range(2))
        told = submit(self._told, fits, stage=name)
        counts, metrics = (submit(itemgetter(place), told, stage=name) for place in range(2))
        given = {"": Table.of(context.session, name, forecasts), "fit": Table.of(context.session, name, fits)}
        return Outcome(given, counts=counts, metrics=metrics if self.holdout else None)

    def _chosen(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select(*self.keys, self.time, pl.col(self.value).cast(pl.Float64))

    def _spacing(self, part: Part, clock: Clock) -> Spacing:
        """What the times of a part's series have in common."""
        known = (raw.known() for raw in self._series(part, clock)[1])
        return Spacing.merged([Spacing.of(clock, raw.times) for raw in known if len(raw.times)])

    def _series(self, part: Part, clock: Clock) -> tuple[pl.DataFrame, list[Raw]]:
        """The keys of a part's series in order, a row each, and the series. Raises DataError for a time that is missing or comes twice."""
        rows = part.frame.with_columns(pl.col(self.time).to_physical().cast(pl.Int64)).sort(*self.keys, self.time)
        grouped = rows.group_by(self.keys, maintain_order=True) if self.keys else rows.group_by(pl.lit(ONE_SERIES), maintain_order=True)
        one = grouped.all()
        keys = one.select(self.keys)
        names = [", ".join(f"{key} {value!r}" for key, value in zip(self.keys, row, strict=True)) for row in keys.iter_rows()]
        found = zip(names or [ONE_SERIES] * one.height, one[self.time], one[self.value], strict=True)
        return keys, [Raw.of(name, times, values, clock) for name, times, values in found]

    def _made(self, part: Part, clock: Clock, given: Step | Spacing, about: tuple[str, int]) -> tuple[Part, Part]:
        """The forecasts and fits of a part's series."""
        (stage, seed), (keys, found) = about, self._series(part, clock)
        way = Way(self.method, self.horizon, self.season, self.level, self.multiplicative, seed)
        rounds, done = Rounds(stage), list[Forecasted]()
        for number, raw in enumerate((one.known() for one in found), 1):
            step = given.step(self.time) if isinstance(given, Spacing) and len(raw.times) else given
            series = Regular.of(raw, clock, step, self.gaps) if isinstance(step, Step) and len(raw.times) else None
            done.append(Forecasted.of(series, way, self.holdout))
            rounds.done(Round(number, len(found)))
        time = self.time, part.frame.schema[self.time]
        return Part(forecast_rows(keys, done, time, self.history)), Part(fit_rows(keys, done))

    def _told(self, fits: Sequence[Part]) -> tuple[dict[str, int], Mapping[str, Any]]:
        """Counts and metrics of all series."""
        whole = pl.concat([part.frame for part in fits])
        return counted(whole, measured=bool(self.holdout)), averaged(whole, self.method)
