"""The column types that a job file can name, and all types by their text, as records have them."""

from __future__ import annotations

import re
from typing import Literal

import polars as pl

DTYPES: dict[str, pl.DataType] = {
    "string": pl.String(),
    "boolean": pl.Boolean(),
    "int8": pl.Int8(),
    "int16": pl.Int16(),
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "uint8": pl.UInt8(),
    "uint16": pl.UInt16(),
    "uint32": pl.UInt32(),
    "uint64": pl.UInt64(),
    "float32": pl.Float32(),
    "float64": pl.Float64(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}
DtypeName = Literal[
    "string", "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "date", "datetime"
]

TIME_UNITS: tuple[Literal["ns", "us", "ms"], ...] = ("ns", "us", "ms")
_PLAIN = (pl.Int128, pl.Time, pl.Null, pl.Binary, pl.Categorical)
_BY_TEXT: dict[str, pl.DataType] = {str(dtype): dtype for dtype in (*DTYPES.values(), *(kind() for kind in _PLAIN))}
_DATETIME = re.compile(r"Datetime\(time_unit='(ns|us|ms)', time_zone=(?:None|'(.+)')\)")
_LIST = re.compile(r"List\((\w+)\)")
_ARRAY = re.compile(r"Array\((\w+), shape=\(([0-9, ]+)\)\)")
_DECIMAL = re.compile(r"Decimal\(precision=([0-9]+), scale=([0-9]+)\)")


def dtype_of_text(text: str) -> pl.DataType | None:
    """The type whose `str` this is; None for one of structures, intervals or listed categories, and of lists of other than plain values."""
    if found := _DATETIME.fullmatch(text):
        unit, zone = found.groups()
        return next(pl.Datetime(known, zone) for known in TIME_UNITS if known == unit)
    if found := _DECIMAL.fullmatch(text):
        return pl.Decimal(*map(int, found.groups()))
    if (found := _LIST.fullmatch(text)) and found[1] in _BY_TEXT:
        return pl.List(_BY_TEXT[found[1]])
    if (found := _ARRAY.fullmatch(text)) and found[1] in _BY_TEXT:
        return pl.Array(_BY_TEXT[found[1]], tuple(int(size) for size in found[2].split(",") if size.strip()))
    return _BY_TEXT.get(text)
