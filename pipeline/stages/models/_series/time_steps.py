"""Times of a series as whole numbers of one step: found, stated, checked, and continued beyond the last of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError, StageError

MONTHS = {"mo": 1, "q": 3, "y": 12}
MICROSECONDS = {"w": 604_800_000_000, "d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
PER_MICROSECOND = {"ns": (1_000, 1), "us": (1, 1), "ms": (1, 1_000), "D": (1, MICROSECONDS["d"])}
LATE_DAY = 28  # a month's days from here on are told from its end where they can be

Times = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """The time between two values of a series: so many months of the calendar, or so many of the column's own units."""

    months: int = 0
    units: int = 0


@dataclass(frozen=True)
class Clock:
    """What a column of times counts in: NumPy's unit of time (D, ms, us, ns), or '' for plain whole numbers."""

    unit: str

    @staticmethod
    def of(name: str, dtype: pl.DataType) -> Clock:
        """The clock of a column. Raises StageError for one that holds neither days, nor times without a zone, nor whole numbers."""
        if dtype.is_integer():
            return Clock("")
        if dtype == pl.Date:
            return Clock("D")
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is None:
            return Clock(dtype.time_unit)
        remedy = "Derive a date or a timestamp without zone from it." if isinstance(dtype, pl.Datetime) else "Cast it."
        raise StageError(f"column {name!r} is {dtype}: times are dates, timestamps without zone, or whole numbers. {remedy}", key="time")

    def stated(self, text: str) -> Step:
        """The step that a text states: 1mo, 1q, 1y, 2w, 1d, 15m, or a plain number of a column of numbers. Raises StageError for others."""
        found = re.fullmatch(r"([1-9][0-9]*)([a-z]*)", text)
        number, name = (int(found[1]), found[2]) if found else (0, "")
        if number and not self.unit and not name:
            return Step(units=number)
        if number and self.unit and name in MONTHS:
            return Step(months=number * MONTHS[name])
        if number and self.unit and name in MICROSECONDS:
            times, over = PER_MICROSECOND[self.unit]
            if number * MICROSECONDS[name] * times % over == 0:
                return Step(units=number * MICROSECONDS[name] * times // over)
        known = "a whole number" if not self.unit else "a number of y, q, mo, w, d" + (", h, m, s, ms or us" if self.unit != "D" else "")
        raise StageError(f"{text!r} is no step of this column: {known} is, such as {'1' if not self.unit else '1mo'}", key="every")

    def text(self, time: int) -> str:
        """A time as people write it."""
        return str(np.array(time).astype(f"M8[{self.unit}]")) if self.unit else str(time)

    def step_text(self, step: Step) -> str:
        """A step as a job states it."""
        if step.months:
            return f"{step.months}mo"
        if not self.unit:
            return str(step.units)
        times, over = PER_MICROSECOND[self.unit]
        size = step.units * over / times
        name = next((name for name, length in MICROSECONDS.items() if size % length == 0), None)
        return f"{int(size // MICROSECONDS[name])}{name}" if name else f"{step.units} ns"

    def months(self, times: Times) -> Times:
        """The month of each time, counted from 1970."""
        return times.astype(f"M8[{self.unit}]").astype("M8[M]").astype(np.int64)

    def first_of(self, months: Times) -> Times:
        """When each month begins."""
        return months.astype("M8[M]").astype(f"M8[{self.unit}]").astype(np.int64)


@dataclass(frozen=True)
class Spacing:
    """What the times of some series have in common: their greatest common steps; `monthly` says that months are one of them."""

    monthly: bool
    months: int
    units: int

    @staticmethod
    def of(clock: Clock, times: Times) -> Spacing:
        """Of one series' times in order."""
        monthly = bool(clock.unit) and _place_in_month(clock, times) is not None
        months = int(np.gcd.reduce(np.diff(clock.months(times)), initial=0)) if monthly else 0
        return Spacing(monthly, months, int(np.gcd.reduce(np.diff(times), initial=0)))

    @staticmethod
    def merged(found: Iterable[Spacing]) -> Spacing:
        """Of several series."""
        known = [*found]
        months, units = (math.gcd(*(getattr(one, name) for one in known)) for name in ("months", "units"))
        return Spacing(all(one.monthly for one in known), months, units)

    def step(self, time: str) -> Step:
        """The step of all of them. Raises DataError where no series has two times."""
        if not self.units:
            raise DataError(f"no series has two different values of {time!r}, so their step cannot be found. State it by every.")
        return Step(months=self.months) if self.monthly and self.months else Step(units=self.units)


def _place_in_month(clock: Clock, times: Times) -> tuple[str, int] | None:
    """Where in their months all times stand: so far after the first moment, or so far before the end; None where they differ."""
    months = clock.months(times)
    after, before = times - clock.first_of(months), clock.first_of(months + 1) - times
    same_start, same_end = bool((after == after[0]).all()), bool((before == before[0]).all())
    if same_end and (int(after[0]) >= _days(clock, LATE_DAY - 1) or not same_start):
        return "end", int(before[0])
    return ("start", int(after[0])) if same_start else None


def _days(clock: Clock, days: int) -> int:
    times, over = PER_MICROSECOND[clock.unit]
    return days * MICROSECONDS["d"] * times // over


@dataclass(frozen=True)
class Scale:
    """The times of one series by their number: step 0 is its first time."""

    clock: Clock
    step: Step
    first: int
    place: tuple[str, int] | None

    @staticmethod
    def of(clock: Clock, step: Step, times: Times, series: str) -> Scale:
        """The scale on which a series' times stand. Raises DataError for times that do not stand at one place of their months."""
        place = _place_in_month(clock, times) if step.months else None
        if step.months and place is None:
            text = f"{series}: its times are not all at one place of their months ({clock.text(times[0])}, {clock.text(times[-1])}), "
            raise DataError(f"{text}and a step is {clock.step_text(step)}. Cut them to months, or state another step by every.")
        return Scale(clock, step, int(times[0]), place)

    def numbers(self, times: Times, series: str) -> Times:
        """The number of each time. Raises DataError for one that lies between two steps."""
        far = self.clock.months(times) - self.clock.months(times[:1]) if self.step.months else times - self.first
        size = self.step.months or self.step.units
        if (odd := np.flatnonzero(far % size)).size:
            here, first = self.clock.text(times[odd[0]]), self.clock.text(self.first)
            step = self.clock.step_text(self.step)
            raise DataError(f"{series}: {here} is no whole number of steps of {step} after {first}. State the right step by every.")
        numbers: Times = far // size
        return numbers

    def times(self, numbers: Times) -> Times:
        """The time of each number."""
        if self.place is None:
            return self.first + numbers * self.step.units
        months = self.clock.months(np.array([self.first])) + numbers * self.step.months
        start, far = self.place
        return self.clock.first_of(months) + far if start == "start" else self.clock.first_of(months + 1) - far
