"""Rows as they travel: JSON (a list of objects) and Arrow IPC streams, read to frames and written from them."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import polars as pl
import pyarrow as pa

from pipeline.errors import RunError


class BadRequestError(RunError):
    """A body that is not what its content type says."""


@dataclass(frozen=True)
class Wire:
    """One way that rows travel. `typed` says that it carries the types of columns."""

    content_type: str
    read: Callable[[bytes], pl.DataFrame]
    write: Callable[[pl.DataFrame], bytes]
    typed: bool


def read_json(body: bytes) -> pl.DataFrame:
    """Rows of a list of objects: a key that an object lacks is null. Raises BadRequestError with the row or column that is odd."""
    try:
        rows = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is no JSON: {error}") from error
    if not isinstance(rows, list):
        raise BadRequestError(f"the body must be a list of rows, each an object by column, and is {_called(rows)}")
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadRequestError(f"row {number} must be an object by column, and is {_called(row)}")
        names |= dict.fromkeys(row)
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    return pl.DataFrame(columns) if columns else pl.DataFrame(height=len(rows))


def write_json(rows: pl.DataFrame) -> bytes:
    """A list of objects; what JSON has no number for (NaN, infinity) is null. A float of 32 bits comes back as the same one."""
    columns = {name: _plain(rows[name]) for name in rows.columns}
    return json.dumps([dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)], default=str).encode()


def read_arrow(body: bytes) -> pl.DataFrame:
    """Rows of an Arrow IPC stream. Raises BadRequestError for what is none."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as stream:
            table = stream.read_all()
        table.validate(full=True)
        found = pl.from_arrow(table)
    except (pa.ArrowException, OSError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise BadRequestError(f"the body is no Arrow IPC stream: {error}") from error
    assert isinstance(found, pl.DataFrame)
    return found


def write_arrow(rows: pl.DataFrame) -> bytes:
    """An Arrow IPC stream."""
    written = io.BytesIO()
    rows.write_ipc_stream(written)
    return written.getvalue()


WIRES: Mapping[str, Wire] = {
    wire.content_type: wire
    for wire in (
        Wire("application/json", read_json, write_json, typed=False),
        Wire("application/vnd.apache.arrow.stream", read_arrow, write_arrow, typed=True),
    )
}


def _column(name: str, values: list[Any]) -> pl.Series:
    """A column of JSON's values: text, numbers, true and false, or lists of numbers; of type Null where none is there."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {list} and (inner := _column(name, [one for value in values for one in value or ()]).dtype).is_numeric():
        return pl.Series(name, values, pl.List(inner), strict=False)
    types: dict[frozenset[type], Any] = {
        frozenset(): pl.Null, frozenset({str}): pl.String, frozenset({bool}): pl.Boolean, frozenset({int}): pl.Int64,
        frozenset({float}): pl.Float64, frozenset({int, float}): pl.Float64,
    }  # fmt: skip
    if frozenset(kinds) not in types:
        found = " and ".join(sorted({_called(value) for value in values if value is not None}))
        raise BadRequestError(f"column {name!r} holds {found}; a column holds texts, numbers, lists of numbers, or true and false")
    try:
        return pl.Series(name, values, types[frozenset(kinds)], strict=float not in kinds)
    except (OverflowError, TypeError) as error:
        raise BadRequestError(f"column {name!r} has a number beyond 64 bits") from error


def _plain(column: pl.Series) -> Sequence[Any]:
    values = column.to_list()
    return [value if value is None or math.isfinite(value) else None for value in values] if column.dtype.is_float() else values


def _called(value: Any) -> str:
    """What JSON calls a value."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; give null")
