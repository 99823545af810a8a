"""Traffic by sensor: the last week of some of them, as it was, as it was forecast, and where it was unusual."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Note, Section, headline
from pipeline.report.svg import Panel, Tick, runs, span_of

MOST_SENSORS = 4
WEEK = timedelta(days=7)
LINES = (("s6", "usual", "usual"), ("s3", "forecast", "forecast"), ("s0", "flow", "observed"))


class Flows(Finding, name="flows"):
    """A wide drawing of the last week of each of the sensors that were unusual most often in it."""

    place = 690
    columns = ("sensor", "time", "flow", "usual", "forecast", "state")

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where the time is no timestamp."""
        rows = evidence.outputs[output].select(self.columns)
        if not isinstance(rows.collect_schema()["time"], pl.Datetime):
            return
        section = Section(headline("Traffic", output))
        last = rows.select(pl.col("time").max()).collect().item()
        week = rows.filter(pl.col("time") > last - WEEK).collect() if last is not None else pl.DataFrame(schema=rows.collect_schema())
        ranked = week.group_by("sensor").agg(odd=pl.col("state").count()).sort("odd", "sensor", descending=[True, False])
        for sensor, odd in ranked.head(MOST_SENSORS).iter_rows():
            section.blocks.append(_drawn(week.filter(pl.col("sensor").eq_missing(sensor)).sort("time"), str(sensor), odd))
        if ranked.height > MOST_SENSORS:
            section.blocks.append(Note(f"The {MOST_SENSORS} of {ranked.height:,} sensors that were unusual most often in the last week."))
        if week.height == 0:
            section.blocks.append(Note("No row has a time."))
        yield section


def _drawn(frame: pl.DataFrame, sensor: str, odd: int) -> Figure:
    """One sensor: its lines, bands where it said nothing of use, and a ring wherever its traffic was unusual."""
    across = frame["time"].dt.epoch("s").cast(pl.Float64).to_numpy()
    values = {name: frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for _, name, _ in LINES}
    low, high = span_of(np.concatenate([*values.values()]))
    step = float(np.diff(across).min()) if len(across) > 1 else 900.0
    panel = Panel(1_100, 230, (float(across[0]), float(across[-1]) + step), (min(low, 0.0), high), left=52)
    states = frame["state"].to_list()
    lost = np.array([state is not None for state in states]) & ~np.isfinite(values["flow"])
    for piece in runs(lost):
        panel.area((across[piece][0], across[piece][-1] + step), (min(low, 0.0),) * 2, (high,) * 2, "band")
    for style, name, _ in LINES:
        for piece in runs(np.isfinite(values[name])):
            panel.line(across[piece], values[name][piece], f"{style} thin")
    for at in np.flatnonzero([state is not None for state in states] & ~lost):
        panel.spot(float(across[at]), float(values["flow"][at]), f"{frame['time'][int(at)]}: {states[at]}")
    caption = f"Sensor {sensor}, the last week: {odd:,} of {frame.height:,} rows are unusual (ringed) or lost (shaded)."
    return Figure(panel.svg(caption, ("", "Flow"), _days(frame["time"])), caption, [(style, text) for style, _, text in LINES], "wide")


def _days(times: pl.Series) -> list[Tick]:
    """The midnights, each with its day."""
    first: datetime = times[0]
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    days = [midnight + timedelta(days=number) for number in range(9)]
    shown = pl.Series(days, dtype=pl.Datetime("us", times.dtype.time_zone if isinstance(times.dtype, pl.Datetime) else None))
    return [(float(at), day.strftime("%a %d %b")) for at, day in zip(shown.dt.epoch("s"), days, strict=True) if first <= day <= times[-1]]
