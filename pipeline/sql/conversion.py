"""Casts of values between types: exact, or rounded as docs/expressions.md says; null where a value does not fit.

The engines differ in what they do with a value that does not fit (Polars gives null, cuDF cuts or wraps it), so the range of every narrower
type is asked for in the query.
"""

from __future__ import annotations

import datetime as dt

import polars as pl

from pipeline.sql.alike import FEW_DIGITS, rounded
from pipeline.sql.whole import limits

EXACT_SCALE = 18  # Int64 and UInt64 are compared with decimals of so many digits after the point, and 38 in all
EPOCH = dt.date(1970, 1, 1)
DAYS = ((dt.date.min - EPOCH).days, (dt.date.max - EPOCH).days)
DAY = 86_400_000_000  # microseconds
MICROSECONDS = (DAYS[0] * DAY, (DAYS[1] + 1) * DAY - 1)
INFINITE = r"^\s*[-+]?inf(inity)?\s*$"
NO_NUMBER = r"^\s*[-+]?(nan|inf|infinity)\s*$"


def converted(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """The values in their new type, rounded where it has fewer digits; null where it is beyond them."""
    if old == new:
        return value
    if old == pl.Boolean:
        return value.cast(new, strict=False)
    if old.is_temporal() and new.is_numeric():
        return _number_of(value, old, new)
    if new.is_integer():
        return _integer(value, old, new)
    if new.is_float():
        there = value.cast(new, strict=False)
        return pl.when(there.is_finite()).then(there).otherwise(None) if old.is_float() or old == pl.String else there
    if isinstance(new, pl.Decimal):
        return _decimal(value, old, new)
    if new.is_temporal() and old.base_type() in {new.base_type(), *([pl.Date] if is_fine(new) else [])}:
        return there_and_back(value, old, new)
    if new.is_temporal() and old.is_integer():
        return _since_1970(value, old, new)
    return value.cast(new, strict=False)


def loses(old: pl.DataType, new: pl.DataType) -> bool:
    """Whether a value of one type may not fit the other."""
    if old == new or pl.Null in {old, new} or old == pl.Boolean or new in {pl.String(), pl.Boolean()}:
        return False
    if old.is_temporal() and new.is_numeric() and not new.is_integer():
        return old not in {pl.Date(), pl.Datetime("us"), pl.Duration("us")} or new.is_decimal()
    if new.is_integer():
        return not (old.is_integer() and within(old, new))
    if new.is_float():
        return old == pl.String or (old == pl.Float64 and new == pl.Float32)
    if new == pl.Date:
        return old.is_integer() or old == pl.String
    return old != pl.Date or is_fine(new)


def is_fine(dtype: pl.DataType) -> bool:
    """Whether a type counts nanoseconds, and so ends in the years 1677 and 2262."""
    return isinstance(dtype, pl.Datetime | pl.Duration) and dtype.time_unit == "ns"


def lost(value: pl.Expr, answer: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """Whether a value is there and has no answer. NaN and infinities are missing, as numbers and as text."""
    there = value.is_finite() if old.is_float() else value.is_not_null()
    if old == pl.String and new.is_float():
        there &= ~value.str.to_lowercase().str.contains(NO_NUMBER)
    return there & answer.is_null()


def infinite_in(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr | None:
    """Whether a value is infinite as a float of the type `new`; None where it cannot be."""
    if old == pl.String and new.is_float():
        return value.str.to_lowercase().str.contains(INFINITE) | value.cast(new, strict=False).is_infinite()
    return value.cast(new, strict=False).is_infinite() if old.is_float() and new.is_float() else None


def there_and_back(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """The value in its new type; null where that, turned back, is another."""
    there = value.cast(new, strict=False)
    return pl.when(there.cast(old, strict=False) == value).then(there).otherwise(None)


def _integer(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    if old == pl.String and new == pl.UInt64:  # Int64 holds the half of it
        above = pl.when(~value.str.starts_with("-")).then(value).otherwise(None)
        return pl.coalesce(narrowed(_whole(value, pl.Int64()), pl.Int64(), new), _whole(above, pl.UInt64()))
    if old == pl.String:
        return narrowed(_whole(value, pl.Int64()), pl.Int64(), new)
    if isinstance(old, pl.Decimal) and old.scale > EXACT_SCALE:
        return value.cast(new, strict=False)
    return narrowed(value.round(0) if old.is_float() or old.is_decimal() else value, old, new)


def _whole(text: pl.Expr, dtype: pl.Int64 | pl.UInt64) -> pl.Expr:
    """The whole number of a text, null where it is none or beyond the type: cuDF's cast would wrap it."""
    return text.str.to_integer(strict=False, dtype=dtype)


def _number_of(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """Days of dates, and microseconds of timestamps and intervals, since 1970."""
    if old == pl.Date:
        return converted(value.cast(pl.Int32), pl.Int32(), new)
    exact = pl.Datetime("us", old.time_zone) if isinstance(old, pl.Datetime) else pl.Duration("us")
    in_us = value if old == exact else there_and_back(value, old, exact)
    return converted(in_us.cast(pl.Int64), pl.Int64(), new)


def _since_1970(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """Days as dates, microseconds as timestamps. cuDF's cast takes a number of 64 bits for two dates: these are timestamps first."""
    if new == pl.Date:
        return (_between(value, old, *DAYS).cast(pl.Int64, strict=False) * DAY).cast(pl.Datetime("us")).cast(new)
    return _between(value, old, *MICROSECONDS).cast(pl.Int64, strict=False).cast(new)


def narrowed(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """Whole numbers of any type as another integer type; null beyond its range."""
    if old.is_integer() and within(old, new):
        return value.cast(new)
    return _between(value, old, *limits(new)).cast(new, strict=False)


def _between(value: pl.Expr, old: pl.DataType, low: int, high: int) -> pl.Expr:
    """Whole numbers from low to high; null for others."""
    if old.is_float():
        fits = (value >= float(low)) & (value < float(high + 1))
    elif old.is_decimal():
        fits = (value >= pl.lit(low, dtype=pl.Int64)) & (value <= pl.lit(high, dtype=pl.UInt64))
    else:
        least, most = limits(old)
        fits = pl.lit(True)
        fits = fits if low <= least else fits & (value >= pl.lit(low, dtype=old))
        fits = fits if high >= most else fits & (value <= pl.lit(high, dtype=old))
    return pl.when(fits).then(value).otherwise(None)


def within(old: pl.DataType, new: pl.DataType) -> bool:
    """Whether every value of an integer type fits another."""
    (least, most), (low, high) = limits(old), limits(new)
    return low <= least and most <= high


def _decimal(value: pl.Expr, old: pl.DataType, new: pl.Decimal) -> pl.Expr:
    """Numbers, or text, at the new scale; null beyond the new number of digits."""
    beyond = 10 ** (new.precision - new.scale)
    if old == pl.String:  # read with more digits than are kept, so that they are rounded as numbers are
        wide = pl.Decimal(38, min(new.scale + 9, 38 - new.precision + new.scale))
        return _rescaled(value.cast(wide, strict=False), wide, new)
    if isinstance(old, pl.Decimal):
        return _rescaled(value, old, new)
    if old.is_float():
        if new.scale <= FEW_DIGITS:
            value = rounded(value.cast(pl.Float64), new.scale, pl.Float64())
        value = pl.when(value.abs() < beyond - 0.5 * 10.0**-new.scale).then(value).otherwise(None)
    elif old.is_integer():
        least, most = limits(old)
        value = _between(value, old, max(1 - beyond, least), min(beyond - 1, most))
    return value.cast(new, strict=False)


def _rescaled(value: pl.Expr, old: pl.Decimal, new: pl.Decimal) -> pl.Expr:
    if new.scale < old.scale:
        if old.scale > EXACT_SCALE:
            return value.cast(new, strict=False)
        value = value.round(new.scale)
    digits, scale = new.precision - new.scale, min(old.scale, new.scale)
    if digits <= old.precision - old.scale:  # cuDF keeps what has more digits
        most = f"{'9' * digits}.{'9' * scale}"  # as text, as the JSON of expressions holds no numbers of so many digits
        lower, upper = (pl.lit(text).cast(old) for text in (f"-{most}", most))
        value = pl.when(value.is_between(lower, upper)).then(value).otherwise(None)
    return value.cast(new, strict=False)
