"""Types of Avro as types of columns, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PLAIN: dict[str, pl.DataType] = {
    "null": pl.Null(),
    "boolean": pl.Boolean(),
    "int": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "bytes": pl.Binary(),
    "fixed": pl.Binary(),
    "string": pl.String(),
    "enum": pl.String(),
}
_LOGICAL: dict[str, pl.DataType] = {
    "date": pl.Date(),
    "time-millis": pl.Time(),
    "time-micros": pl.Time(),
    "timestamp-millis": pl.Datetime("ms", "UTC"),
    "timestamp-micros": pl.Datetime("us", "UTC"),
    "local-timestamp-millis": pl.Datetime("ms"),
    "local-timestamp-micros": pl.Datetime("us"),
}
_WRITTEN: dict[pl.DataType, str] = {
    pl.Boolean(): "boolean",
    **dict.fromkeys((pl.Int8(), pl.Int16(), pl.Int32(), pl.UInt8(), pl.UInt16()), "int"),
    **dict.fromkeys((pl.Int64(), pl.UInt32()), "long"),
    pl.Float32(): "float",
    pl.Float64(): "double",
    pl.Binary(): "bytes",
    pl.String(): "string",
}


def dtype_of(schema: Any, named: dict[str, pl.DataType]) -> pl.DataType:
    """The type of a column of an Avro schema; `named` are the types that it may name. Raises ValueError for one that no column has."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise ValueError(f"a column of several types, {schema}, is none of a table")
        return dtype_of(others[0], named)
    if isinstance(schema, str):
        if schema not in _PLAIN and schema not in named:
            raise ValueError(f"type {schema!r} is none of a table")
        return _PLAIN.get(schema) or named[schema]
    found = _complex(schema, named)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _complex(schema: Mapping[str, Any], named: dict[str, pl.DataType]) -> pl.DataType:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return pl.Decimal(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical is not None:
        raise ValueError(f"logical type {logical!r} is none that is read")
    if kind == "array":
        return pl.List(dtype_of(schema["items"], named))
    if kind == "record":
        return pl.Struct({field["name"]: dtype_of(field["type"], named) for field in schema["fields"]})
    return dtype_of(kind, named)


def avro_of(dtype: pl.DataType, name: str) -> list[Any]:
    """The Avro type of a column, which may be missing; `name` is unlike that of any other record. Raises ValueError where there is none."""
    return ["null", _avro_of(dtype, name)]


def _avro_of(dtype: pl.DataType, name: str) -> Any:
    if dtype in _WRITTEN:
        return _WRITTEN[dtype]
    if isinstance(dtype, pl.Decimal):
        return {"type": "bytes", "logicalType": "decimal", "precision": dtype.precision or 38, "scale": dtype.scale}
    if dtype == pl.Date():
        return {"type": "int", "logicalType": "date"}
    if isinstance(dtype, pl.Datetime) and dtype.time_unit != "ns":
        unit = {"ms": "millis", "us": "micros"}[dtype.time_unit]
        return {"type": "long", "logicalType": f"timestamp-{unit}" if dtype.time_zone else f"local-timestamp-{unit}"}
    if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.DataType):
        return {"type": "array", "items": avro_of(dtype.inner, f"{name}_item")}
    if isinstance(dtype, pl.Struct):
        return record({field.name: _known(field.dtype) for field in dtype.fields}, name)
    raise ValueError(f"Avro has no type for {dtype}")


def record(columns: Mapping[str, pl.DataType], name: str) -> dict[str, Any]:
    """The Avro type of a row. Raises ValueError where a name, or a type, has none."""
    if wrong := [column for column in columns if not NAME.fullmatch(column)]:
        raise ValueError(f"{wrong[0]!r} is no name that Avro takes: letters, digits and _, and no digit first")
    fields = [{"name": column, "type": avro_of(dtype, f"{name}_{column}")} for column, dtype in columns.items()]
    return {"type": "record", "name": name, "fields": fields}


def _known(dtype: object) -> pl.DataType:
    assert isinstance(dtype, pl.DataType)
    return dtype
