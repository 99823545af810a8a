"""Texts as dates and datetimes of ISO 8601, each by itself.

Polars' parser takes the order of day, month and year from the first value of every chunk: 01/02/2020 is the first of February, and a file
of two orders is read or refused by where its chunks end.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

DATE = "%Y-%m-%d"
FORMS = tuple(f"{DATE}{between}{time}" for time in ("%H:%M:%S%.f", "%H:%M", "%H:%M:%S%.f%#z") for between in "T ")
FIRST_YEAR = 1000  # a form takes 31-01-20 for a day of the year 31


def iso_dates(texts: pl.Expr) -> pl.Expr:
    """Dates of texts as 2026-01-31. A query over another fails."""
    return texts.str.to_date(DATE).map_batches(_of_four_digits, return_dtype=pl.Date(), is_elementwise=True)


def iso_datetimes(texts: pl.Expr) -> pl.Expr:
    """Datetimes, in `us`, of texts as 2026-01-31T12:30:00, with a blank for the T, without seconds or time, or with a zone (then of UTC).

    A query over another fails.
    """
    return texts.map_batches(_datetimes, return_dtype=pl.Datetime("us"), is_elementwise=True)


def _of_four_digits(found: pl.Series) -> pl.Series:
    """The same, or an error where a year has fewer digits."""
    if (early := found.filter(found.dt.year() < FIRST_YEAR)).len():
        raise pl.exceptions.InvalidOperationError(f"{early[0]} is of a year of fewer than four digits")
    return found


def _datetimes(texts: pl.Series) -> pl.Series:
    first = texts.drop_nulls().head(1)
    readers = sorted(_READERS, key=lambda read: read(first).null_count())  # that of the first one before all others
    found = readers[0](texts)
    for read in readers[1:]:
        if found.null_count() == texts.null_count():
            return _of_four_digits(found)
        found = found.fill_null(read(texts))
    if (bad := texts.filter(texts.is_not_null() & found.is_null())).len():
        raise pl.exceptions.InvalidOperationError(f"{bad[0]!r} is no datetime")
    return _of_four_digits(found)


def _reader(form: str) -> Callable[[pl.Series], pl.Series]:
    zone = "UTC" if form.endswith("z") else None
    return lambda texts: texts.str.to_datetime(form, time_unit="us", time_zone=zone, strict=False).dt.replace_time_zone(None)


_READERS: list[Callable[[pl.Series], pl.Series]] = [
    *map(_reader, FORMS),
    lambda texts: texts.str.to_date(DATE, strict=False).cast(pl.Datetime("us")),
]
