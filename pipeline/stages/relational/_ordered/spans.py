"""Spans of time as a job states them, in the units of a column."""

from __future__ import annotations

import re

import polars as pl

from pipeline.errors import StageError

NANOSECONDS = {
    "w": 604_800_000_000_000,
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000}


def unit_of(dtype: pl.DataType) -> int | None:
    """The nanoseconds of a column's unit; 0 for whole numbers, None for what is no time."""
    if dtype == pl.Date:
        return NANOSECONDS["d"]
    if isinstance(dtype, pl.Datetime):
        return UNITS[dtype.time_unit]
    return 0 if dtype.is_integer() and dtype != pl.UInt64 else None


def need_time(name: str, dtype: pl.DataType, *, key: str) -> int:
    """The unit of a column of times. Raises StageError for one that holds neither dates, nor timestamps, nor whole numbers."""
    unit = unit_of(dtype)
    if unit is None:
        raise StageError(f"column {name!r} is {dtype}: times are dates, timestamps, or whole numbers of 64 bits. Cast it.", key=key)
    return unit


def span_of(text: str, name: str, dtype: pl.DataType, *, key: str) -> int:
    """A fixed span in the units of a column: 15m, 1h, 7d; a whole number for a column of numbers. Raises StageError for others.

    A day is 24 hours, on days when the clocks are changed too.
    """
    unit = need_time(name, dtype, key=key)
    found = re.fullmatch(r"([1-9][0-9]{0,15})([a-z]*)", text.strip())
    number, suffix = (int(found[1]), found[2]) if found else (0, "")
    if number and not unit and not suffix:
        return number
    size = number * NANOSECONDS.get(suffix, 0)
    if unit and size and size % unit == 0 and size // unit < 2**62:
        return size // unit
    known = (
        "a whole number such as 5"
        if not unit
        else "a number of w, d, h, m, s, ms, us or ns, such as 1h"
        if dtype != pl.Date
        else "7d or 1w"
    )
    raise StageError(f"{text!r} is no span of {name!r}, which is {dtype}. Give {known}.", key=key)


def as_number(name: str) -> pl.Expr:
    """A column of times as Int64, in its own units."""
    return pl.col(name).to_physical().cast(pl.Int64)
