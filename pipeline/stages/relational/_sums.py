"""Sums and means that never wrap round: 64-bit integers are added up in halves, decimals in 38 digits.

A sum of halves of 32 bits cannot outgrow 64 bits for fewer than two thousand million rows of a key, in any order of parts. Put together
they say exactly whether the sum fits; narrower integers need no halves for as many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl

from pipeline.sql.scaled import is_for_a_cpu, of_units

HALF = 2**32
HALVES = ("high", "low")
DIGITS = 38
SAFE_DIGITS = 28  # two thousand million numbers of so many digits have sums of 38


def sum_type(dtype: pl.DataType) -> pl.DataType:
    """The type of a sum: Int64 for integers and conditions, UInt64 for its own, 38 digits for decimals, else Float64."""
    if isinstance(dtype, pl.Decimal):
        return pl.Decimal(38, dtype.scale)
    if dtype.is_float():
        return pl.Float64()
    return pl.UInt64() if dtype == pl.UInt64 else pl.Int64()


def may_outgrow(dtype: pl.DataType) -> bool:
    """Whether a sum of such values can be beyond its type: of 64-bit integers, and of decimals of many digits."""
    return dtype in {pl.Int64(), pl.UInt64()} or is_wide(dtype)


def is_wide(dtype: pl.DataType) -> bool:
    """Whether decimals have so many digits that a sum of them may have more than 38."""
    return isinstance(dtype, pl.Decimal) and dtype.precision > SAFE_DIGITS


def in_units(values: pl.Expr, dtype: pl.DataType, added: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """What `added` makes of values whose sums fit their type; of decimals on a CPU from their units, in two thirds of the time."""
    if not (isinstance(dtype, pl.Decimal) and is_for_a_cpu()):
        return added(values)
    made = partial(of_units, dtype.scale)
    return added(values.to_physical()).map_batches(made, return_dtype=sum_type(dtype), is_elementwise=True, returns_scalar=True)


def fits(about: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Whether a sum of decimals of this type, in floats `about`, has 38 digits at most."""
    assert isinstance(dtype, pl.Decimal)
    return about.abs() < float(10 ** (DIGITS - dtype.scale)) * (1 - 1e-12)


def bounded(name: str, schema: pl.Schema) -> list[pl.Expr]:
    """A sum of decimals, null where it has more than 38 digits, and the same in floats, infinite there: whatever is added, it stays so."""
    total, about = pl.col(f"sum:{name}"), pl.col(f"about:{name}")
    within = fits(about, schema[f"sum:{name}"])
    kept = pl.when(within).then(total).otherwise(None), pl.when(within | about.is_null()).then(about).otherwise(float("inf"))
    return [kept[0].alias(f"sum:{name}"), kept[1].alias(f"about:{name}")]


def halves(value: pl.Expr, dtype: pl.DataType) -> dict[str, pl.Expr]:
    """What tells whether a sum fits, beside it or in its place: of decimals the same in floats.

    Of 64-bit integers the upper and the lower 32 bits, in their own type: value = high * 2**32 + low, 0 <= low < 2**32.
    """
    if is_wide(dtype):
        return {"about": value.cast(pl.Float64)}
    return {"high": value // pl.lit(HALF, dtype=dtype), "low": value & pl.lit(HALF - 1, dtype=dtype)}


def whole(high: pl.Expr, low: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The sum from the sums of halves; null where it is beyond the type."""
    upper, lower = _carried(high, low, dtype)
    least, most = (0, HALF - 1) if dtype == pl.UInt64 else (-HALF // 2, HALF // 2 - 1)
    fits = (upper >= pl.lit(least, dtype=dtype)) & (upper <= pl.lit(most, dtype=dtype))
    return pl.when(fits).then(upper * pl.lit(HALF, dtype=dtype) + lower).otherwise(None)


def as_float(high: pl.Expr, low: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The sum from the sums of halves as Float64, whatever its size: rounded once."""
    upper, lower = _carried(high, low, dtype)
    return upper.cast(pl.Float64) * float(HALF) + lower.cast(pl.Float64)


def _carried(high: pl.Expr, low: pl.Expr, dtype: pl.DataType) -> tuple[pl.Expr, pl.Expr]:
    return high + low // pl.lit(HALF, dtype=dtype), low & pl.lit(HALF - 1, dtype=dtype)
