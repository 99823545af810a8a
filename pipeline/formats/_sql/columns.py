"""What the columns of a query are, in Polars' types, and the SQL that reads each of them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline.errors import InputError
from pipeline.formats._sql.database import column
from pipeline.tables.dtypes import DTYPES, DtypeName

_TEXTS = ("text", "varchar", "bpchar", "name")
_PLAIN: dict[str, pl.DataType] = {
    "bool": pl.Boolean(),
    "int2": pl.Int16(),
    "int4": pl.Int32(),
    "int8": pl.Int64(),
    "float4": pl.Float32(),
    "float8": pl.Float64(),
    "bytea": pl.Binary(),
    "time": pl.Time(),
    **dict.fromkeys(_TEXTS, pl.String()),
}
_TIMES: dict[str, pl.DataType] = {"date": pl.Date(), "timestamp": pl.Datetime("us"), "timestamptz": pl.Datetime("us", "UTC")}
_LISTS = ("int2", "int4", "int8", "float4", "float8", "bool", "text", "varchar")
_POSTGRES_CAST: dict[str, str] = {
    "string": "text",
    "boolean": "boolean",
    "int8": "int2",
    "int16": "int2",
    "int32": "int4",
    "uint8": "int2",
    "uint16": "int4",
    "float32": "float4",
    "float64": "float8",
    "date": "date",
    "datetime": "timestamp",
}
_SQLITE_HOLDS = {
    "boolean": {"integer"},
    "float32": {"integer", "real"},
    "float64": {"integer", "real"},
    "date": {"text"},
    "datetime": {"text"},
}
MOST_DIGITS = 38


@dataclass(frozen=True)
class SqlColumn:
    """A column: its name, the SQL that reads it, its type, and SQL that is true where a value is infinite and is read as missing."""

    name: str
    select: str
    dtype: pl.DataType
    infinite: str = ""


def postgres_columns(cursor: Any, rows: str, stated: Mapping[str, DtypeName], place: str) -> list[SqlColumn]:
    """The columns of a query, by what the server says of it without running it. Raises InputError for numbers of no known scale."""
    found = []
    for entry in cursor.adbc_execute_schema(rows):
        about = {key.decode(): value.decode() for key, value in (entry.metadata or {}).items()}
        kind, sql = about.get("POSTGRESQL:type", ""), column(entry.name)
        if entry.name in stated:
            target = _POSTGRES_CAST.get(stated[entry.name], "int8")
            found.append(SqlColumn(entry.name, f"{sql}::{target}", DTYPES[stated[entry.name]]))
        elif kind == "numeric":
            found.append(SqlColumn(entry.name, f"{sql}::text", _decimal(about.get("POSTGRESQL:typmod", "-1"), entry.name, place)))
        elif kind in _TIMES:
            found.append(SqlColumn(entry.name, f"case when isfinite({sql}) then {sql} end", _TIMES[kind], f"not isfinite({sql})"))
        elif kind in _PLAIN:
            found.append(SqlColumn(entry.name, sql, _PLAIN[kind]))
        elif kind.startswith("_") and kind[1:] in _LISTS:
            found.append(SqlColumn(entry.name, sql, pl.List(_PLAIN[kind[1:]])))
        elif kind == "oid":
            found.append(SqlColumn(entry.name, f"{sql}::int8", pl.Int64()))
        else:  # Polars has no such type: its text says all of it
            found.append(SqlColumn(entry.name, f"{sql}::text", pl.String()))
    return found


def _decimal(typmod: str, name: str, place: str) -> pl.DataType:
    packed = int(typmod) - 4
    precision, scale = packed >> 16, packed & 0x7FF
    if packed < 0 or precision > MOST_DIGITS or scale > precision:
        what = "without a scale" if packed < 0 else f"of {precision} digits, {scale} of them after the point"
        remedy = f"Cast it in a query ({column(name)}::numeric(18, 4)), or state in columns what it is to be: float64 or string."
        raise InputError(f"{place}: column {name!r} is numeric {what}, which Polars' decimals do not hold. {remedy}")
    return pl.Decimal(precision, scale)


def sqlite_columns(cursor: Any, rows: str, stated: Mapping[str, DtypeName], place: str) -> list[SqlColumn]:
    """The columns of a query, by what its rows hold: SQLite's columns have no types. Raises InputError where they hold several."""
    cursor.execute(f"select * from ({rows}) limit 0")
    names = [entry[0] for entry in cursor.description]
    kinds = ", ".join(f"group_concat(distinct typeof({column(name)}))" for name in names)
    cursor.execute(f"select {kinds} from ({rows})")
    held = [set(str(value or "").split(",")) - {"null", ""} for value in cursor.fetchone()]
    return [_sqlite_column(name, found, stated.get(name), place) for name, found in zip(names, held, strict=True)]


def _sqlite_column(name: str, held: set[str], stated: DtypeName | None, place: str) -> SqlColumn:
    sql = column(name)
    if stated == "string":
        return SqlColumn(name, f"cast({sql} as text)", pl.String())
    if stated is not None:
        if not held <= _SQLITE_HOLDS.get(stated, {"integer"}):
            what = f"column {name!r} holds {' and '.join(sorted(held))}, which is no {stated}"
            raise InputError(f"{place}: {what}. State another type in columns.")
        return SqlColumn(name, f"cast({sql} as real)" if stated.startswith("float") else sql, DTYPES[stated])
    if held == {"integer"}:
        return SqlColumn(name, sql, pl.Int64())
    if held and held <= {"integer", "real"}:
        return SqlColumn(name, f"cast({sql} as real)", pl.Float64())
    if held == {"blob"}:
        return SqlColumn(name, sql, pl.Binary())
    if held <= {"text"}:
        return SqlColumn(name, f"cast({sql} as text)", pl.String())
    remedy = f"Cast it in a query, or state in columns what it is to be, such as {name}: string."
    raise InputError(f"{place}: column {name!r} holds {' and '.join(sorted(held))}, which are not of one type. {remedy}")
