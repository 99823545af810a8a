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
    "float32": {"integer", "great integer", "real"},
    "float64": {"integer", "great integer", "real"},
    "date": {"text"},
    "datetime": {"text"},
}
MOST_DIGITS = 38
EXACT = 2**53  # whole numbers beyond are rounded by float64
_KIND = "case when typeof({0}) = 'integer' and ({0} > {1} or {0} < -{1}) then 'great integer' else typeof({0}) end"


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
        elif kind == "numeric":  # whose NaN is missing, as that of floats is
            dtype = _decimal(about.get("POSTGRESQL:typmod", "-1"), entry.name, place)
            found.append(SqlColumn(entry.name, f"nullif({sql}::text, 'NaN')", dtype))
        else:
            found.append(_postgres_column(entry.name, kind))
    return found


def _postgres_column(name: str, kind: str) -> SqlColumn:
    sql = column(name)
    if kind in _TIMES:
        within = f"{sql} between '0001-01-01' and '9999-12-31 23:59:59.999999'"
        select = f"case when not isfinite({sql}) then null else {_only(sql, within, kind)} end"
        return SqlColumn(name, select, _TIMES[kind], f"not isfinite({sql})")
    if kind == "time":
        return SqlColumn(name, _only(sql, f"{sql} < '24:00'", kind), pl.Time())
    if kind in _PLAIN:
        return SqlColumn(name, sql, _PLAIN[kind])
    if kind.startswith("_") and kind[1:] in _LISTS:
        return SqlColumn(name, _only(sql, f"coalesce(array_ndims({sql}), 1) = 1", f"{kind[1:]}[]"), pl.List(_PLAIN[kind[1:]]))
    if kind == "oid":
        return SqlColumn(name, f"{sql}::int8", pl.Int64())
    return SqlColumn(name, f"{sql}::text", pl.String())  # Polars has no such type: its text says all of it


def _only(sql: str, condition: str, kind: str) -> str:
    """The values that Polars has, too; others fail the query, where they would come as other values or panic."""
    return (
        f"case when {sql} is null or {condition} then {sql} else ('none that is read, say string in columns: ' || {sql}::text)::{kind} end"
    )


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
    kinds = [f"group_concat(distinct {_KIND.format(column(name), EXACT)})" for name in names]
    cursor.execute(f"select {', '.join(kinds)} from ({rows})")
    held = [set(str(value or "").split(",")) - {"null", ""} for value in cursor.fetchone()]
    return [_sqlite_column(name, found, stated.get(name), place) for name, found in zip(names, held, strict=True)]


def _sqlite_column(name: str, held: set[str], stated: DtypeName | None, place: str) -> SqlColumn:
    sql = column(name)
    if stated == "string":
        return SqlColumn(name, f"cast({sql} as text)", pl.String())
    if stated is not None:
        if not held <= _SQLITE_HOLDS.get(stated, {"integer", "great integer"}):
            what = f"column {name!r} holds {' and '.join(sorted(held))}, which is no {stated}"
            raise InputError(f"{place}: {what}. State another type in columns.")
        return SqlColumn(name, f"cast({sql} as real)" if stated.startswith("float") else sql, DTYPES[stated])
    if held and held <= {"integer", "great integer"}:
        return SqlColumn(name, sql, pl.Int64())
    if held and held <= {"integer", "real"}:
        return SqlColumn(name, f"cast({sql} as real)", pl.Float64())
    if held == {"blob"}:
        return SqlColumn(name, sql, pl.Binary())
    if held <= {"text"}:
        return SqlColumn(name, f"cast({sql} as text)", pl.String())
    remedy = f"Cast it in a query, or state in columns what it is to be, such as {name}: string."
    raise InputError(f"{place}: column {name!r} holds {' and '.join(sorted(held))}, which are not of one type. {remedy}")
