"""Kinds of values: what can be compared and mixed."""

from __future__ import annotations

import polars as pl

FAMILIES = (
    {pl.String: "text", pl.Categorical: "text", pl.Enum: "text", pl.Boolean: "condition"}
    | {pl.Date: "date", pl.Datetime: "date"}
    | {
        pl.Duration: "duration",
        pl.Null: "null",
    }
)


def family(dtype: pl.DataType) -> str:
    """What a type can be compared and mixed with: number, text, condition, date, duration, null, or its own name."""
    return "number" if dtype.is_numeric() else FAMILIES.get(dtype.base_type(), str(dtype))
