"""DuckDB's answer, and what makes two answers the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from typing import Any

import duckdb
import polars as pl
from polars import selectors

from tests.differential.tables import ZONE

RELATIVE = 1e-9  # of floats: DuckDB adds up in another order, and its variance has another formula
TINY = 1e-9
MACROS = """
create macro finite(x) as case when isfinite(x) then x end;
create macro times(a, b) as (a::uhugeint * b::uhugeint) % 18446744073709551616::uhugeint;
create macro plus(a, b) as (a::uhugeint + b::uhugeint) % 18446744073709551616::uhugeint;
create macro folded(z, n) as xor(z, z // n::uhugeint);
create macro word(k) as (case when k is null then 0 when k < 0 then 18446744073709551616::hugeint + k else k::hugeint end)::uhugeint;
create macro fraction(z) as (z // 2048::uhugeint)::double / 9007199254740992::double;
"""


@dataclass(frozen=True)
class Plain:
    """What DuckDB does not have: an answer by NumPy, SciPy, scikit-learn or plain Python, and what it is in words."""

    text: str
    made: Callable[[Mapping[str, pl.DataFrame]], pl.DataFrame]


@cache
def database() -> duckdb.DuckDBPyConnection:
    """A database in memory, whose local time is that of the tables' zone, with the stages' hash, and what is finite, as macros."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"set TimeZone = '{ZONE}'")
    connection.execute(MACROS)
    return connection


def answer(sql: str | Plain, tables: Mapping[str, pl.DataFrame | str]) -> pl.DataFrame:
    """What DuckDB, or a plain program, answers; a table is given as it is, or as a query that reads it from files. Raises duckdb.Error."""
    if isinstance(sql, Plain):
        return sql.made({name: table for name, table in tables.items() if isinstance(table, pl.DataFrame)})
    connection = database()
    for name, table in tables.items():
        connection.execute(f"drop view if exists {quoted(name)}")
        if isinstance(table, str):
            connection.execute(f"create temp view {quoted(name)} as {table}")
        else:
            connection.register(name, table.to_arrow(compat_level=pl.CompatLevel.oldest()))
    found = pl.from_arrow(connection.sql(sql).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def copy(rows: pl.DataFrame, path: str, options: str) -> None:
    """Have DuckDB write a file, or a folder of them."""
    database().register("copied", rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
    database().execute(f"copy copied to '{path}' ({options})")


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def assert_same(found: pl.DataFrame, expected: pl.DataFrame, *, ordered: bool = False, apart: float = TINY) -> None:
    """Assert that two tables have the same columns and, in any order unless `ordered`, the same rows; exact but for floats."""
    assert found.columns == expected.columns, f"columns {found.columns}, not {expected.columns}"
    ours, theirs = _instants(found).rows(), _instants(expected).rows()
    assert len(ours) == len(theirs), f"{len(ours)} rows, not {len(theirs)}:\n{found}\n{expected}"
    if not ordered:
        ours, theirs = (sorted(rows, key=partial(_order, [dtype.is_float() for dtype in found.dtypes])) for rows in (ours, theirs))
    for row, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for name, a, b in zip(found.columns, mine, other, strict=True):
            if not _same(a, b, apart):
                kinds = f"{found.schema[name]}, there {expected.schema[name]}"
                given = dict(zip(found.columns, mine, strict=True))
                raise AssertionError(f"column {name!r}, row {row} ({given}): {a!r}, not {b!r} ({kinds})")


def _instants(frame: pl.DataFrame) -> pl.DataFrame:
    """Times of a zone in UTC: Python's own comparison takes the two hours at the end of summer for one, or for none."""
    return frame.with_columns(selectors.datetime(time_zone="*").dt.convert_time_zone("UTC"))


def _same(a: Any, b: Any, apart: float) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=apart)
    if isinstance(a, float) or isinstance(b, float):
        return False
    return bool(a == b)


def _order(floats: Sequence[bool], row: tuple[Any, ...]) -> list[tuple[bool, str, Any]]:
    """What a row is sorted by: columns of floats, whose last digits may differ, come last."""
    keys = [(value is None, _kind(value), 0 if value is None else value) for value in row]
    rounded = [(missing, kind, round(value, 6) if kind == "float" else value) for missing, kind, value in keys]
    exact = [key for key, is_float in zip(rounded, floats, strict=True) if not is_float]
    return exact + [key for key, is_float in zip(rounded, floats, strict=True) if is_float]


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | Decimal) and not isinstance(value, bool) else type(value).__name__
