"""Fourier transforms of signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.kernels.spectrum import amplitudes, densities, frequencies, hann, transformed
from pipeline.stage import ColumnName, Context, Outcome, Whole, need_columns, need_keys
from pipeline.stages.science._matrices import FLOAT, Names, check_names, frame_of, matrix_columns, matrix_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Array = Any
EVEN = 1e-6
"""Share of a step by which the time between two samples may differ from it."""
SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class Fft(Whole, name="fft", version=1):
    """Transform evenly sampled signals to frequencies (FFT): each column of numbers, within each series of `by` by itself.

    Samples are put in the order of `time` and must be evenly apart (`resample` and `interpolate` make them so). Frequencies are in cycles
    per unit of `time`: in hertz where it holds timestamps, per day where dates. `amplitude` has 1 where a sine of amplitude 1 is, at 0 the
    size of the mean; `density` is the power spectral density, in squares per unit of frequency; `complex` the sums themselves, as
    COLUMN_real and COLUMN_imaginary, for frequencies from 0 to half a cycle a step. A series lies in one task, so several of them divide,
    and one does not.

    A row a series and frequency: the columns of `by`, `frequency`, and the columns of the signals.

    Example: {use: fft, from: recordings, as: spectra, by: sensor, time: second, columns: [acceleration], measure: amplitude}
    """

    time: ColumnName = Field(description="Column of times: numbers, timestamps or dates.")
    by: Names = Field((), description="Columns that name a series; all rows are one where not given.")
    columns: Names = Field((), description="Columns of signals; all others of numbers where not given.")
    measure: Literal["amplitude", "density", "complex"] = Field("amplitude", description="What is said of each frequency.")
    window: Literal["none", "hann"] = Field("none", description="Weights of the samples: hann lets a sine between frequencies leak less.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The spectra. Raises StageError for columns that cannot be used."""
        schema = schemas["rows"]
        need_columns(schema, [self.time], key="time")
        dtype = schema.columns[self.time]
        if not (dtype.is_numeric() or dtype == pl.Date or isinstance(dtype, pl.Datetime | pl.Duration)):
            raise StageError(f"column {self.time!r} is {dtype}: numbers, timestamps or dates are needed", key="time")
        need_keys(schema, self.by, key="by")
        if self.time in self.by:
            raise StageError(f"column {self.time!r} is the time, and so names no series", key="by")
        own = matrix_columns(schema, self.columns, [*self.by, self.time])
        made = ["frequency", *self._made(own)]
        check_names(schema, self.by, made, key="by")
        if "frequency" in made[1:]:
            raise StageError("the result has a column 'frequency' of its own. Rename yours before.", key="columns")
        return {"": Schema(pl.Schema({**{name: schema.columns[name] for name in self.by}, **dict.fromkeys(made, FLOAT)}))}

    def _made(self, own: tuple[str, ...]) -> list[str]:
        return [f"{name}_{part}" for name in own for part in ("real", "imaginary")] if self.measure == "complex" else list(own)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Whole series in every part."""
        rows = tables["rows"].named(context.name)
        assert rows.schema is not None
        own = matrix_columns(rows.schema, self.columns, [*self.by, self.time])
        schema = self.outputs({"rows": rows.schema})[""]
        rows = rows.exchange(self.by) if self.by else rows.gather()
        return Outcome({"": rows.map_parts(self._spectra, own, schema, context.session.backend, writes=None)})

    def _series(self, part: Part) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
        """Every series of a part in the order of time."""
        order = [*self.by, self.time]
        frame = part.frame if _is_in_order(part.frame, order) else part.frame.sort(order, nulls_last=True)
        others = [pl.col(name).ne_missing(pl.col(name).shift()) for name in self.by]
        starts = frame.select(pl.any_horizontal(pl.int_range(pl.len()) == 0, *others).arg_true()).to_series().to_list()
        for start, end in pairwise([*starts, frame.height]):
            yield frame.select(self.by).row(start, named=True) if self.by else {}, frame.slice(start, end - start)

    def _spectra(self, part: Part, own: tuple[str, ...], schema: Schema, backend: Backend) -> Part:
        frames = [schema.columns.to_frame()]
        for key, series in self._series(part):
            step = self._step(series, key)
            values = matrix_of(Part(series), own, backend, [*self.by, self.time])
            found = pl.DataFrame({"frequency": frequencies(len(values), step)}).hstack(
                frame_of(self._measured(values, step), self._made(own))
            )
            names = [pl.lit(value, schema.columns[name]).alias(name) for name, value in key.items()]
            frames.append(found.select(*names, pl.all()))
        return Part(pl.concat(frames))

    def _measured(self, values: Array, step: float) -> Array:
        samples = len(values)
        window = hann(samples, values) if self.window == "hann" else None
        with np.errstate(over="ignore", invalid="ignore"):  # refused by frame_of
            found = transformed(values, window)
            if self.measure == "complex":
                return np.ascontiguousarray(to_host(found)).view(np.float64)
            return amplitudes(found, samples, window) if self.measure == "amplitude" else densities(found, samples, step, window)

    def _step(self, series: pl.DataFrame, key: Mapping[str, Any]) -> float:
        """Units of time from a sample to the next. Raises DataError where samples are not evenly apart, or too few."""
        where = "".join(f" of {name} {value!r}" for name, value in key.items())
        if series[self.time].null_count():
            raise DataError(f"a sample{where} has no time. Filter it before.", key="time")
        if series.height < 2:
            raise DataError(
                f"the series{where} has one sample, and a spectrum is of two at least. Filter it before.", key="by" if key else "time"
            )
        dtype = series.schema[self.time]
        unit = SECONDS[dtype.time_unit] if isinstance(dtype, pl.Datetime | pl.Duration) else 1.0
        times = series[self.time].to_physical()
        steps = times.diff().drop_nulls().to_numpy().astype(np.float64)
        step = float(steps.mean())
        uneven = np.flatnonzero(~(abs(steps - step) <= EVEN * abs(step)) | (steps <= 0))
        if len(uneven):
            found, at = float(steps[uneven[0]] * unit), series[self.time][int(uneven[0])]
            text = f"samples{where} are not evenly apart: after {self.time} {at!r} comes the next after {found:g}"
            text += f", where {step * unit:g} is a step"
            raise DataError(f"{text}. Use resample and interpolate, or drop_duplicates, before.", key="time")
        return step * unit


def _is_in_order(frame: pl.DataFrame, names: list[str]) -> bool:
    """Whether the rows are in the order of these columns, no two of them equal: a look costs a tenth of a sort."""
    after = pl.lit(value=False)
    for column in map(pl.col, reversed(names)):
        after = (column > column.shift()) | ((column == column.shift()) & after)
    return frame.height < 2 or bool(frame.select(after.slice(1).fill_null(value=False).all()).item())
