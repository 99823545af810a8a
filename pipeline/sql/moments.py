"""Dates and timestamps cut to their hour, day or month, in sums of whole numbers: cuDF has no calendar steps."""

from __future__ import annotations

import datetime as dt
from typing import Literal
from zoneinfo import available_timezones

import polars as pl

from pipeline.errors import ExpressionError, near
from pipeline.sql.arguments import need_arguments, stated_text
from pipeline.sql.casts import cast_value, made
from pipeline.sql.conversion import DAY
from pipeline.sql.dates import zone_of
from pipeline.sql.tree import Node, shown

SECONDS = {"second": 1, "minute": 60, "hour": 3_600}
DAYS = ("day", "week", "month", "quarter", "year")
TICKS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
QUARTERS = (0, 90, 181, 273)  # days of a year before each, without a leap day
A_DAY = dt.timedelta(days=1)


def date_trunc(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """The start of the hour, day and so on of a date or timestamp, by the local clock of its zone."""
    need_arguments("date_trunc('month', d)", nodes, 2)
    part, value, dtype = stated_text(nodes[0], "the part of date_trunc").lower(), nodes[1], dtypes[1]
    if part not in SECONDS and part not in DAYS:
        raise ExpressionError(f"date_trunc has no part {part!r}.{near(part, [*SECONDS, *DAYS])}")
    if dtype == pl.Null:
        return value
    if dtype == pl.Date:
        if part in SECONDS:
            raise ExpressionError(f"{shown(value)} is a date, which has no {part}: write cast(... as timestamp)")
        return made(value, lambda day: _first_day(day, part))
    if not isinstance(dtype, pl.Datetime):
        raise ExpressionError(f"date_trunc takes a date or timestamp, and {shown(value)} is {dtype}: cast it, as in cast(t as date)")
    if part in SECONDS:
        step = SECONDS[part] * TICKS[dtype.time_unit]
        return made(value, lambda moment: _since(moment, step, dtype))
    clock = pl.Datetime(dtype.time_unit)
    first = made(value, lambda moment: _first_day(_local(moment, dtype).cast(pl.Date), part))
    midnight = cast_value(first, pl.Date(), "Datetime", clock, strict=True)
    zone = zone_of(dtype)
    return midnight if zone is None else made(midnight, lambda local: with_zone(local, clock, zone, "earliest"))


def at_time_zone(nodes: list[Node], dtypes: list[pl.DataType]) -> Node:
    """A timestamp as the moment at which the zone's clock shows it; one with a zone as what the clock of this one shows then."""
    value, dtype, zone = nodes[0], dtypes[0], stated_text(nodes[1], "the zone of `at time zone`")
    if zone not in available_timezones():
        raise ExpressionError(f"there is no time zone {zone!r}.{near(zone, sorted(available_timezones()))}")
    if not isinstance(dtype, pl.Datetime):
        raise ExpressionError(f"`at time zone` takes a timestamp, and {shown(value)} is {dtype}: cast it, as in cast(d as timestamp)")
    if dtype.time_zone is not None:
        return made(value, lambda moment: moment.dt.convert_time_zone(zone).dt.replace_time_zone(None))
    return made(value, lambda clock: with_zone(clock, dtype, zone, "latest"))


def with_zone(local: pl.Expr, dtype: pl.Datetime, zone: str, ambiguous: Literal["earliest", "latest"]) -> pl.Expr:
    """The moments at which a zone's clock shows these times.

    Of a time that it shows twice the earlier or later one. A time that it skips counts on from before: 02:30 is 03:30 where two o'clock
    becomes three.
    """
    day = pl.lit(A_DAY, dtype=pl.Duration(dtype.time_unit))
    shown_there = local.dt.replace_time_zone(zone, ambiguous=ambiguous, non_existent="null")
    day_before = (local - day).dt.replace_time_zone(zone, ambiguous="latest", non_existent="null")
    return pl.coalesce(shown_there, day_before + day)


def _local(moment: pl.Expr, dtype: pl.Datetime) -> pl.Expr:
    return moment if dtype.time_zone is None else moment.dt.replace_time_zone(None)


def _since(moment: pl.Expr, step: int, dtype: pl.Datetime) -> pl.Expr:
    """A moment less what its clock shows beyond a whole step: of an hour that is shown twice each stays itself."""
    ticks = _local(moment, dtype).cast(pl.Int64)
    return (moment.cast(pl.Int64) - (ticks - (ticks // step) * step)).cast(dtype)


def _first_day(day: pl.Expr, part: str) -> pl.Expr:
    if part == "day":
        return day
    date = day.dt
    number = {"week": date.weekday, "month": date.day}.get(part, date.ordinal_day)()
    into = number.cast(pl.Int64) - 1
    if part == "quarter":
        quarter, year = date.quarter().cast(pl.Int64), date.year().cast(pl.Int64)
        leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        before = pl.lit(0, dtype=pl.Int64)
        for of_year, days in enumerate(QUARTERS[1:], start=2):
            before = pl.when(quarter == of_year).then(pl.lit(days, dtype=pl.Int64)).otherwise(before)
        into = into - before - pl.when(leap & (quarter > 1)).then(pl.lit(1, dtype=pl.Int64)).otherwise(pl.lit(0, dtype=pl.Int64))
    return ((day.cast(pl.Int32).cast(pl.Int64) - into) * DAY).cast(pl.Datetime("us")).cast(pl.Date)
