"""Tables of extremes, every value of a column beside every value of the others, and what DuckDB says of an expression there."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import polars as pl

ZONE = "Europe/Berlin"
DAY, MOMENT = dt.date, dt.datetime
TEXTS = [None, "", " ", "a", "B", "Zürich", "𝒳y", "a-b-c", "é", "a.b*", " x ", "%_", "1", "ab" * 20]
DATES = "1970-01-01 1969-12-31 0002-01-01 9990-12-31 2024-02-29 2021-01-03 1900-02-28 2000-12-31"
DAYS = [None, *(DAY.fromisoformat(day) for day in DATES.split())]
CLOCKS = "1970-01-01T00:00 1969-12-31T23:59:59.999999 1969-12-31T23:00:00.000001 0002-03-01T12:00 9990-12-31T23:59:59.999999"
CLOCKS += " 2024-02-29T12:30:15.250000 2021-03-28T02:30 2021-03-28T01:00 2021-10-31T00:30 2021-10-31T01:30"
CENTS = [None, *map(Decimal, ["0.00", "1.25", "-1.25", "2.50", "-0.01", "9999999999.99", "0.05"])]
VALUES: dict[str, tuple[Any, Sequence[Any]]] = {
    "t": (pl.String, TEXTS),
    "u": (pl.String, [None, "", "a", "b", "-", "ü", ".", " "]),
    "n": (pl.Int64, [None, 0, 1, 2, 3, -1, -2, 100]),
    "k": (pl.Int64, [None, 1, 2, 50]),
    "i": (pl.Int64, [None, 0, 1, -1, 7, -7, 2**62, 2**63 - 1, -(2**63) + 1]),
    "j": (pl.Int64, [None, 0, 1, -1, 3, -3]),
    "w": (pl.Int32, [None, 0, 1, -1, 5, 2**31 - 1, -(2**31) + 1]),
    "f": (pl.Float64, [None, 0.0, -0.0, 0.5, 1.5, 2.5, -2.5, -1.0, 1.0, 2.675, 1e300, -1e300, 1e-300, 0.1]),
    "g": (pl.Float64, [None, 0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1e300]),
    "b": (pl.Boolean, [None, True, False]),
    "c": (pl.Boolean, [None, True, False]),
    "d": (pl.Date, DAYS),
    "e": (pl.Date, DAYS[:5]),
    "s": (pl.Datetime("us"), [None, *map(MOMENT.fromisoformat, CLOCKS.split())]),
    "p": (pl.Decimal(12, 2), CENTS),
    "l": (pl.List(pl.Int64), [None, [], [5], [1, None, 3]]),
}


def extremes(names: str) -> pl.DataFrame:
    """The columns of these letters; `z` is s with a zone."""
    found = pl.DataFrame({"row": [0]})
    for name in names.replace("z", ""):
        dtype, values = VALUES[name]
        found = found.join(pl.DataFrame({name: pl.Series(values, dtype=dtype)}), how="cross")
    if "z" in names:
        zoned = pl.col("s").dt.replace_time_zone("UTC").dt.convert_time_zone(ZONE)
        found = found.join(pl.DataFrame({"s": pl.Series(VALUES["s"][1], dtype=pl.Datetime("us"))}).select(z=zoned), how="cross")
    return found.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))


@cache
def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"set TimeZone = '{ZONE}'")
    return connection


def duckdb_says(rows: pl.DataFrame, expression: str) -> list[Any]:
    """DuckDB's values, by row; null where it fails, and for what is no finite number."""
    found = _database().from_arrow(rows.to_arrow()).project(f'"row", try({expression}) as r')
    answered = pl.from_arrow(found.to_arrow_table())
    assert isinstance(answered, pl.DataFrame)
    return values_of(answered.sort("row")["r"])


def values_of(column: pl.Series) -> list[Any]:
    """Values in plain Python: moments in UTC, and no infinities."""
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in column.to_list()]


def differences(rows: pl.DataFrame, ours: Sequence[Any], theirs: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows where the answers are not the same, with both; floats may differ in their last digits."""
    assert len(ours) == len(theirs) == len(rows)
    pairs = zip(rows.drop("row").rows() or [()] * len(rows), ours, theirs, strict=True)
    return [(given, mine, other) for given, mine, other in pairs if not _same(mine, other)]


def _same(mine: Any, other: Any) -> bool:
    if mine is None or other is None or isinstance(mine, bool) or isinstance(other, bool):
        return mine is other
    if isinstance(mine, float) or isinstance(other, float):
        return math.isclose(mine, other, rel_tol=1e-12, abs_tol=1e-300)
    return bool(mine == other)
