"""Sums and means that never wrap round: 64-bit integers are added up in halves, decimals in 38 digits.

A sum of halves of 32 bits cannot outgrow 64 bits for fewer than two thousand million rows of a key, in any order of parts. Put together
they say exactly whether the sum fits; narrower integers need no halves for as many rows.
"""

from __future__ import annotations

import polars as pl

HALF = 2**32
HALVES = ("high", "low")


def sum_type(dtype: pl.DataType) -> pl.DataType:
    """The type of a sum: Int64 for integers and conditions, UInt64 for its own, 38 digits for decimals, else Float64."""
    if isinstance(dtype, pl.Decimal):
        return pl.Decimal(38, dtype.scale)
    if dtype.is_float():
        return pl.Float64()
    return pl.UInt64() if dtype == pl.UInt64 else pl.Int64()


def may_outgrow(dtype: pl.DataType) -> bool:
    """Whether a sum of such values can be beyond its type: of 64-bit integers."""
    return dtype in {pl.Int64(), pl.UInt64()}


def halves(value: pl.Expr, dtype: pl.DataType) -> dict[str, pl.Expr]:
    """The upper and the lower 32 bits of 64-bit integers, in their own type: value = high * 2**32 + low, 0 <= low < 2**32."""
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
