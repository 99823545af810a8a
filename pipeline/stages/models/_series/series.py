"""One series as a row of values a step apart: duplicates and gaps refused by name, or gaps filled as asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._series.time_steps import Clock, Scale, Step

Gaps = Literal["refuse", "previous", "linear", "zero"]
MOST_STEPS = 10_000_000  # of one series: beyond it the step is wrong
REMEDY = "Fill it by gaps: previous, linear or zero, or state the step by every."


@dataclass(frozen=True)
class Raw:
    """A series as it came, in the order of time: its name for errors, `times int64[n]`, `values float64[n]`, NaN where missing."""

    name: str
    times: Any
    values: Any

    @staticmethod
    def of(name: str, times: pl.Series, values: pl.Series, clock: Clock) -> Raw:
        """Of columns in the order of time. Raises DataError for a time that is missing or comes twice."""
        if times.has_nulls():
            raise DataError(f"{name}: {times.null_count():,} of {len(times):,} rows have no time. Filter them out before.")
        found = times.to_numpy()
        if (again := np.flatnonzero(np.diff(found) == 0)).size:
            text = f"{name}: the time {clock.text(found[again[0]])} comes twice. "
            raise DataError(f"{text}Aggregate the values of a time, or name in series what tells such rows apart.")
        return Raw(name, found, values.to_numpy())

    def known(self) -> Raw:
        """The times that have a value."""
        known = np.isfinite(self.values)
        return self if known.all() else Raw(self.name, self.times[known], self.values[known])


@dataclass(frozen=True)
class Regular:
    """A series with a value at every step from its first to its last known one: `filled` of them were put in."""

    name: str
    scale: Scale
    values: Any
    filled: int

    @staticmethod
    def of(raw: Raw, clock: Clock, step: Step, gaps: Gaps) -> Regular:
        """A series that has values. Raises DataError for a gap that is not to be filled, and for times that do not fit the step."""
        scale = Scale.of(clock, step, raw.times, raw.name)
        numbers = scale.numbers(raw.times, raw.name)
        steps = int(numbers[-1]) + 1
        missing = steps - len(numbers)
        if missing and (gaps == "refuse" or steps > MOST_STEPS):
            at = int(np.flatnonzero(np.diff(numbers) > 1)[0])
            first, more = clock.text(scale.times(numbers[at : at + 1] + 1)[0]), f" and {missing - 1:,} more" if missing > 1 else ""
            raise DataError(f"{raw.name}: no value at {first}{more}, where a step is {clock.step_text(step)}. {REMEDY}")
        return Regular(raw.name, scale, _filled(raw.values, numbers, steps, gaps) if missing else raw.values, missing)

    def ahead(self, start: int, count: int) -> Any:
        """The times of `count` steps from number `start` on."""
        return self.scale.times(np.arange(start, start + count))


def _filled(values: Any, numbers: Any, steps: int, gaps: Gaps) -> Any:
    every = np.arange(steps)
    if gaps == "linear":
        return np.interp(every, numbers, values)
    if gaps == "previous":
        return values[np.searchsorted(numbers, every, "right") - 1]
    whole = np.zeros(steps)
    whole[numbers] = values
    return whole
