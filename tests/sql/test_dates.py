"""Dates and timestamps in expressions: the local clock of their zone, compared with DuckDB's, and no hours lost."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import polars as pl
import pytest

from pipeline.errors import DataError, ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages.relational.derive import Derive
from pipeline.testing.stages import run_stage
from tests.sql.expression_page import derived

ZONES = ["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "UTC"]
HOURS = [dt.datetime(2021, month, day, hour, 30) for month, day in ((3, 28), (5, 31), (10, 31), (12, 31)) for hour in range(24)]
BEFORE = [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1900, 1, 1), dt.datetime(2100, 2, 28, 23, 59)]
PLAIN = pl.DataFrame({"n": [*HOURS, *BEFORE, None], "d": [dt.date(2021, 6, 1)] * 100}).with_columns(
    **{unit: pl.col("n").cast(pl.Datetime(unit)) for unit in ("ms", "ns")}
)


def zoned(zone: str) -> pl.DataFrame:
    return PLAIN.with_columns(s=pl.col("n").dt.replace_time_zone("UTC").dt.convert_time_zone(zone))


def duckdb_says(frame: pl.DataFrame, zone: str, expression: str) -> list[Any]:
    connection = duckdb.connect()
    connection.execute(f"set TimeZone = '{zone}'")
    return [value for (value,) in connection.from_arrow(frame.to_arrow()).project(expression).fetchall()]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "expression",
    [
        *("cast(s as date)", "cast(s as timestamp)", "strftime(s, '%Y-%m-%d %H:%M:%S')", "date_part('day', s)", "date_part('hour', s)"),
        *("date_part('doy', s)", "date_part('minute', s)", "date_part('epoch', s)", "cast(cast(s as date) as int)", "try_cast(s as date)"),
    ],
)
def test_a_timestamp_with_a_zone__is_what_its_clock_shows(expression: str, zone: str) -> None:
    oracle = expression.replace("cast(cast(s as date) as int)", "cast(s as date) - date '1970-01-01'")
    assert derived(expression, zoned(zone)).to_list() == duckdb_says(zoned(zone), zone, oracle)


def test_a_date_of_a_zone__is_the_day_that_its_parts_are_of() -> None:
    frame = pl.DataFrame({"s": [dt.datetime(2021, 5, 31, 22, 30)]}).select(
        pl.col("s").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    )
    assert derived("cast(s as date)", frame).item() == dt.date(2021, 6, 1)
    assert derived("date_part('day', s)", frame).item() == 1
    assert derived("cast(s as timestamp) > timestamp '2021-06-01 00:15:00'", frame).item()


def test_timestamps_as_numbers__are_microseconds_whatever_the_column_counts_in() -> None:
    expected = duckdb_says(PLAIN, "UTC", "epoch_us(n)")
    for column in ("n", "ms", "ns"):
        assert derived(f"cast({column} as bigint)", PLAIN).to_list() == expected
        assert derived(f"cast(cast({column} as bigint) as timestamp)", PLAIN).to_list() == PLAIN["n"].to_list()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *(
            (text, r"would mix clocks: the column 's' \(Europe/Berlin\) and .*cast\(s as timestamp\): the local clock")
            for text in ("s > date '2021-06-01'", "s = n", "s - n", "s - d", "s <= z", "coalesce(s, n)", "s between d and d")
        ),
        ("case when n > d then s else z end", r"clocks: the column 's' \(Europe/Berlin\) and the column 'z' \(UTC\)"),
        ("s in (timestamp '2021-06-01 00:30:00')", "`in` would mix clocks"),
        *(
            (f"d + interval '{parts}'", "the column 'd' is a date, which has no hours")
            for parts in ("15 minutes", "36 hours", "1 day 1 second")
        ),
        ("d - interval '1 hour'", "write cast"),
        ("d + (n - n)", "the column 'd' is a date, which has no hours"),
        ("d + interval '90 minutes' * 2", "which has no hours"),
        ("cast(x as timestamp)", r"the column 'x' is Float64, which is no timestamp: cast it to bigint first, microseconds since 1970"),
        ("try_cast(p as date)", r"the column 'p' is Decimal.*, which is no date: cast it to bigint first, days since 1970"),
        ("cast(x > 1 as date)", "is Boolean, which is no date"),
    ],
)
def test_answers_that_would_lose_hours_or_zones__are_refused(text: str, reason: str) -> None:
    schema = pl.Schema({"s": pl.Datetime("us", "Europe/Berlin"), "z": pl.Datetime("us", "UTC"), "n": pl.Datetime("us"), "d": pl.Date()})
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, pl.Schema(schema | {"x": pl.Float64(), "p": pl.Decimal(9, 2)}))


def test_whole_days_and_months__are_added_to_dates() -> None:
    frame = pl.DataFrame({"d": [dt.date(2021, 1, 31)], "n": [dt.datetime(2021, 1, 31, 23, 50)]})
    for expression in ("d + interval '1 day'", "d - interval '2 weeks'", "d + interval '1 month'", "n + interval '15 minutes'"):
        expected = duckdb_says(frame, "UTC", f"cast({expression} as {'date' if expression[0] == 'd' else 'timestamp'})")
        assert derived(expression, frame).to_list() == expected
    assert derived("cast(d as timestamp) + interval '15 minutes'", frame).item() == dt.datetime(2021, 1, 31, 0, 15)


NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
FINE = [dt.datetime(2021, 6, 1, 0, 0, 0, 5_000), dt.datetime(2021, 6, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_000), None]


def of_two_units(one: Any, two: Any) -> pl.DataFrame:
    """Every pair of some moments, one nanosecond or microsecond more in the finer unit."""
    left, right = (pl.Series(FINE, dtype=pl.Datetime("us")).cast(pl.Datetime(unit)) for unit in (one, two))
    pairs = left.to_frame("x").join(right.to_frame("y"), how="cross")
    more = pairs.with_columns(
        (pl.col(name).to_physical() + (unit != "ms")).cast(pl.Datetime(unit)) for name, unit in (("x", one), ("y", two))
    )
    return pl.concat([pairs, more])


@pytest.mark.parametrize("one", NANOSECONDS)
@pytest.mark.parametrize("two", NANOSECONDS)
def test_timestamps_of_two_units__are_compared_and_subtracted_without_a_loss(one: Any, two: Any) -> None:
    frame = of_two_units(one, two)
    exact = [
        (None if x is None else x * NANOSECONDS[one], None if y is None else y * NANOSECONDS[two])
        for x, y in frame.select(pl.all().to_physical()).iter_rows()
    ]
    both = [(x, y) for x, y in exact if x is not None and y is not None]
    known = frame.drop_nulls()
    assert derived("x < y", known).to_list() == [x < y for x, y in both]
    assert derived("x = y", known).to_list() == [x == y for x, y in both]
    assert derived("x - y", known).cast(pl.Duration("ns")).to_physical().to_list() == [x - y for x, y in both]
    assert derived("coalesce(x, y)", frame).cast(pl.Datetime("ns")).to_physical().to_list() == [x if x is not None else y for x, y in exact]
    assert derived("case when x > y then x else y end", known).cast(pl.Datetime("ns")).to_physical().to_list() == [
        max(pair) for pair in both
    ]


def test_nanoseconds_beside_other_times__fail_where_they_cannot_hold_them() -> None:
    frame = pl.DataFrame({"n": pl.Series([0], dtype=pl.Datetime("ns")), "d": [dt.date(9999, 1, 1)], "m": [dt.datetime(2020, 1, 1)]})
    assert derived("n < m", frame).item()
    assert derived("n < date '2020-01-01'", frame).item()
    with pytest.raises(
        DataError,
        match=r"cast to Datetime.*'ns'.*does not fit, first in row 1 of its part, where d is 9999-01-01\. .*counts nanoseconds here",
    ):
        run_stage(Derive(columns={"z": "n < d"}), {"rows": frame})
    with pytest.raises(ExpressionError, match="`in` compares microseconds, and that has nanoseconds"):
        check_value("n in (timestamp '2020-01-01 00:00:00')", frame.schema)
    ms = frame.select(x=pl.col("m").cast(pl.Datetime("ms")))
    assert derived("x in (timestamp '2020-01-01 00:00:00')", ms).item()
