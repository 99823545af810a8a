"""Forecasts of series: some of them drawn, with what was observed before and the intervals ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Note, Section, headline
from pipeline.report.svg import Panel, Tick, runs, span_of

VALUES = ("observed", "mean", "lower", "upper")
MOST_SERIES, MOST_STEPS, TICKS = 6, 400, 3
LONG = 20  # characters of a time as they are shown: to the second


class Forecasts(Finding, name="forecasts"):
    """A small drawing of each of the first series, with the last steps observed where the output has them."""

    place = 720
    columns = VALUES

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section; none where no column could be the time."""
        rows = evidence.outputs[output]
        schema = rows.collect_schema()
        others = [name for name in schema.names() if name not in VALUES]
        times = [name for name in others if schema[name].is_temporal()] or [name for name in others if schema[name].is_integer()]
        if not times:
            return
        time, section = times[-1], Section(headline("Forecasts", output))
        keys = [name for name in others if name != time]
        series = rows.select(keys).unique().sort(keys, nulls_last=True).collect() if keys else pl.DataFrame()
        first = series.head(MOST_SERIES)
        for key in first.iter_rows() if keys else [()]:
            chosen = [pl.col(name).eq_missing(pl.lit(value, schema[name])) for name, value in zip(keys, key, strict=True)]
            frame = rows.filter(*chosen).sort(time).tail(MOST_STEPS).collect()
            if frame.height:
                section.blocks.append(_drawn(frame, time, ", ".join(map(str, key))))
        if series.height > MOST_SERIES:
            section.blocks.append(Note(f"The first {MOST_SERIES} of {series.height:,} series by {', '.join(keys)}."))
        yield section


def _drawn(frame: pl.DataFrame, time: str, name: str) -> Figure:
    """One series: what was observed, what was forecast, and the intervals."""
    across = frame[time].to_physical().cast(pl.Float64).to_numpy()
    values = {column: frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy() for column in VALUES}
    span = span_of(across, 0.02) if len(across) > 1 else (across[0] - 1, across[0] + 1)
    panel = Panel(330, 220, span, span_of(np.concatenate([*values.values()])), left=58, right=36)
    seen, ahead = np.isfinite(values["observed"]), np.isfinite(values["mean"])
    kinds = (("s6", "observed", "observed", seen), ("s3", "forecast of values held out", "mean", ahead & seen))
    legend = []
    for style, what, column, there in (*kinds, ("s0", "forecast with its interval", "mean", ahead & ~seen)):
        legend += [(style, what)] if there.any() else []
        for piece in runs(there):
            if column == "mean" and np.isfinite(values["lower"][piece] + values["upper"][piece]).all():
                panel.area(across[piece], values["lower"][piece], values["upper"][piece], f"pale {style}")
            panel.line(across[piece], values[column][piece], f"{style} thin")
            panel.dots(across[piece], values[column][piece], style)
    last = float(values["mean"][-1])
    caption = f"{name or 'The series'}: forecast to {_text(frame, time, -1)}, {last:,.4g} at the end."
    return Figure(panel.svg(caption, (time, "Value"), _ticks(frame, time)), caption, legend)


def _ticks(frame: pl.DataFrame, time: str) -> list[Tick]:
    """The times of a few rows across the panel."""
    places = sorted({round(at * (frame.height - 1) / (TICKS - 1)) for at in range(TICKS)})
    physical = frame[time].to_physical()
    return [(float(physical[at]), _text(frame, time, at)) for at in places]


def _text(frame: pl.DataFrame, time: str, row: int) -> str:
    """The time of a row, without what is 0 in all of them."""
    text = str(frame[time][row])
    if frame.schema[time].is_temporal() and text.endswith("00:00:00") and (frame[time].dt.date() == frame[time]).all():
        return text.split()[0]
    return text[:LONG]
