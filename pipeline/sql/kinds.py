"""Kinds of values, what can be compared and mixed, and how that is written."""

from __future__ import annotations

import re

import polars as pl

TYPES = re.compile("U?Int(8|16|32|64)|Float(32|64)|Decimal|String|Boolean|Date(time)?")
COMPARISONS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="} | {
    "EqValidity": "<=>",
    "NotEqValidity": "is distinct from",
}
LOGIC = {"And": "and", "Or": "or", "Xor": "xor"}
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
