"""Steps of time: fixed ones, weeks from Monday, and months of the calendar; each time's step, and when a step begins.

In a zone, steps of more than an hour are those of the local clock: a day begins at its midnight, and has 23, 24 or 25 hours. Steps of up
to an hour are fixed, and an hour that the clock shows twice is two.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from functools import cache
from zoneinfo import ZoneInfo

import polars as pl

from pipeline.errors import StageError
from pipeline.sql.checks import Problem, failing
from pipeline.sql.moments import with_zone
from pipeline.stages.relational._ordered.spans import NANOSECONDS, need_time, span_of

MONTHS = {"mo": 1, "q": 3, "y": 12}
QUARTER = 15 * NANOSECONDS["m"]  # the clocks of all zones differ by multiples of it
HOUR = 60 * NANOSECONDS["m"]
KNOWN_YEARS = range(1970, 2038)
MONDAY = 4  # the first one since 1970-01-01, in days
ERA, ERA_YEARS = 146_097, 400  # days and years after which the calendar repeats
MARCH_0000 = 719_468  # days from 0000-03-01 to 1970-01-01


@dataclass(frozen=True)
class Steps:
    """Steps of so many months, or of so many of a column's own units: counted from 1970, weeks from its first Monday, numbers from 0."""

    name: str
    dtype: pl.DataType
    months: int
    size: int
    first: int = 0
    zone: str | None = None

    @staticmethod
    def of(text: str, name: str, dtype: pl.DataType, *, key: str) -> Steps:
        """The steps that a text states: 15m, 1h, 1d, 2w, 1mo, 1q, 1y, or a whole number. Raises StageError for no step of the column."""
        unit = need_time(name, dtype, key="time")
        found = re.fullmatch(r"([1-9][0-9]{0,15})([a-z]*)", text.strip())
        number, suffix = (int(found[1]), found[2]) if found else (0, "")
        if number and not unit and not suffix:
            return Steps(name, pl.Int64(), 0, number)
        size = number * NANOSECONDS.get(suffix, 0)
        zone = dtype.time_zone if isinstance(dtype, pl.Datetime) and dtype.time_zone != "UTC" else None
        if unit and 0 < number * MONTHS.get(suffix, 0) <= 120_000:
            return Steps(name, dtype, number * MONTHS[suffix], 0, zone=zone)
        if unit and size and size % unit == 0 and size // unit < 2**62:
            first = MONDAY * NANOSECONDS["d"] if suffix == "w" else 0
            if zone and size <= HOUR:
                first, zone = _first_within(size, zone, f"{text} of {name!r}", key), None
            return Steps(name, dtype, 0, size // unit, first // unit, zone)
        units = "d, w, mo, q or y" if dtype == pl.Date else "ns, us, ms, s, m, h, d, w, mo, q or y"
        known = f"a number of {units}, such as 1mo" if unit else "a whole number, such as 5"
        raise StageError(f"{text!r} is no step of {name!r}, which is {dtype}. Give {known}.", key=key)

    def later(self, text: str, *, key: str) -> Steps:
        """The same steps, each so much later. Raises StageError for steps of the calendar, and for a text that is no span."""
        if self.months:
            raise StageError("steps of the calendar begin with their month. Leave out the offset, or take a fixed step.", key=key)
        return replace(self, first=(self.first + span_of(text, self.name, self.dtype, key=key)) % self.size)

    def number(self) -> pl.Expr:
        """The step of each time, Int64; a number so near the end of 64 bits that its step begins beyond fails the run."""
        time = pl.col(self.name)
        if self.zone:
            time = time.dt.replace_time_zone(None)
        if self.months:
            month = time.dt.year().cast(pl.Int64) * 12 + time.dt.month().cast(pl.Int64) - 1
            return (month - 1970 * 12) // self.months
        place = time.to_physical().cast(pl.Int64)
        problem = Problem("a step begins before the least Int64", "Filter such a number out.", (self.name,), "time")
        number = place // self.size if not self.first else (place - self.first) // self.size
        return failing(number, number < -((2**63 - abs(self.first)) // self.size), problem)

    def begin(self, number: pl.Expr) -> pl.Expr:
        """When each step begins, in the type of its column; Int64 for numbers."""
        if not self.months:
            return self._as_time(number * self.size + self.first)
        days = _first_day(number * self.months)
        unit = need_time(self.name, self.dtype, key="time")
        return self._as_time(days * (NANOSECONDS["d"] // unit))

    def _as_time(self, place: pl.Expr) -> pl.Expr:
        if self.dtype == pl.Date:  # by way of a timestamp: cuDF takes no number for a date
            return (place * 86_400_000).cast(pl.Datetime("ms")).cast(pl.Date)
        if self.zone and isinstance(self.dtype, pl.Datetime):
            clock = pl.Datetime(self.dtype.time_unit)
            return with_zone(place.cast(clock), clock, self.zone, "earliest")
        return place if self.dtype.is_integer() else place.cast(self.dtype)


@cache
def _first_within(size: int, zone: str, what: str, key: str) -> int:
    """When the first step of up to an hour begins after 1970 in UTC, in ns. Raises StageError where a clock moves by no whole steps."""
    clock, months = ZoneInfo(zone), [(year, month) for year in KNOWN_YEARS for month in range(1, 13)]
    ahead = [dt.datetime(year, month, 1, tzinfo=clock).utcoffset() or dt.timedelta() for year, month in months]
    firsts = {-int(found.total_seconds()) * NANOSECONDS["s"] % size for found in ahead} if QUARTER % size else {0}
    if len(firsts) > 1:
        raise StageError(
            f"the clock of {zone} moved by no whole steps of {what}. Take a step that divides 15m, or one of more than 1h.", key=key
        )
    return firsts.pop()


def _first_day(month: pl.Expr) -> pl.Expr:
    """The days from 1970-01-01 to the first day of a month, which is counted from January 1970.

    Howard Hinnant, "chrono-compatible low-level date algorithms" (2013): years begin in March, so that the leap day is the last.
    """
    since_march = month + (1970 * 12 - 2)
    year, place = since_march // 12, since_march % 12
    era = year // ERA_YEARS
    of_era = year - era * ERA_YEARS
    day = (place * 153 + 2) // 5 + of_era * 365 + of_era // 4 - of_era // 100
    return era * ERA + day - MARCH_0000
