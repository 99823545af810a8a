"""date_trunc and `at time zone`: what DuckDB answers, by the local clock of a zone, twice shown and skipped hours too."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import polars as pl
import pytest

from pipeline.errors import DataError, ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages.relational.derive import Derive
from pipeline.testing.stages import run_stage
from tests.sql.expression_page import derived
from tests.sql.test_dates import PLAIN, ZONES, duckdb_says, zoned

DATES = pl.DataFrame(
    {"d": [dt.date(year, month, day) for year in (1, 1900, 1969, 2000, 2023, 2024, 9999) for month in range(1, 13) for day in (1, 15, 28)]}
)
LONG = ["day", "week", "month", "quarter", "year"]
SHORT = ["second", "minute", "hour"]


@pytest.mark.parametrize("part", LONG)
def test_date_trunc__of_a_date_is_the_date_that_the_part_starts_with(part: str) -> None:
    assert derived(f"date_trunc('{part}', d)", DATES).dtype == pl.Date
    expected = duckdb_says(DATES, "UTC", f"cast(date_trunc('{part}', d) as date)")
    assert derived(f"date_trunc('{part}', d)", DATES).to_list() == expected


@pytest.mark.parametrize("part", [*LONG, *SHORT])
@pytest.mark.parametrize("column", ["n", "ms", "ns"])
def test_date_trunc__of_a_timestamp_keeps_its_type(part: str, column: str) -> None:
    frame = PLAIN.with_columns(pl.col("n", "ms", "ns").dt.offset_by("17s"))
    found = derived(f"date_trunc('{part}', {column})", frame)
    assert found.dtype == frame.schema[column]
    assert found.cast(pl.Datetime("us")).to_list() == duckdb_says(frame, "UTC", f"date_trunc('{part}', n)")


@pytest.mark.parametrize("part", [*LONG, *SHORT])
@pytest.mark.parametrize("zone", ZONES)
def test_date_trunc__of_a_zone_goes_by_its_clock(part: str, zone: str) -> None:
    frame = zoned(zone)
    found = derived(f"date_trunc('{part}', s)", frame).dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    expected = duckdb_says(frame, zone, f"date_trunc('{part}', s) at time zone 'UTC'")
    moments = frame["s"].dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_list()
    for moment, mine, other in zip(moments, found, expected, strict=True):
        if moment is not None and other > moment:  # DuckDB: of an hour that is shown twice, always the later one
            assert moment - dt.timedelta(hours=1) < mine <= moment
        else:
            assert mine == other


def test_date_trunc__of_nanoseconds_that_begin_before_their_type_fails_by_name() -> None:
    frame = pl.DataFrame({"s": pl.Series([-(2**63) + 1], dtype=pl.Int64).cast(pl.Datetime("ns"))})
    with pytest.raises(DataError, match=r"cast to Datetime.*'ns'.*does not fit, first in row 1"):
        run_stage(Derive(columns={"z": "date_trunc('year', s)"}), {"rows": frame})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("date_trunc('mnth', d)", r"date_trunc has no part 'mnth'\. Did you mean 'month'"),
        ("date_trunc('hour', d)", "the column 'd' is a date, which has no hour: write cast"),
        ("date_trunc('month', t)", "takes a date or timestamp, and the column 't' is String"),
        ("date_trunc(t, d)", "the part of date_trunc is a text in quotes that is the same for all rows, not the column 't'"),
        ("date_trunc('month')", r"date_trunc\(\) has 1 arguments: write date_trunc\('month', d\)"),
        ("date_trunc()", r"date_trunc\(\) has 0 arguments"),
    ],
)
def test_what_is_no_moment__is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, pl.Schema({"d": pl.Date(), "t": pl.String(), "s": pl.Datetime("us")}))


@pytest.mark.parametrize("zone", [*ZONES, "America/Havana", "Australia/Lord_Howe"])
def test_at_time_zone__is_the_moment_at_which_a_clock_shows_a_time(zone: str) -> None:
    hours = pl.datetime_range(dt.datetime(2011, 1, 1), dt.datetime(2012, 1, 1), "15m", eager=True)
    frame = pl.concat([hours.to_frame("n"), PLAIN.select("n")])
    found = derived(f"n at time zone '{zone}'", frame)
    assert found.dtype == pl.Datetime("us", zone)
    expected = duckdb_says(frame, "UTC", f"(n at time zone '{zone}') at time zone 'UTC'")
    assert found.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_list() == expected
    assert derived(f"n at time zone '{zone}' at time zone 'UTC'", frame).to_list() == expected
    back = f"n at time zone 'UTC' at time zone '{zone}'"
    assert derived(back, frame).to_list() == duckdb_says(frame, "UTC", back)


@pytest.mark.parametrize("zone", ZONES)
def test_at_time_zone__of_a_column_with_one_is_what_another_clock_shows(zone: str) -> None:
    expected = duckdb_says(zoned(zone), zone, "s at time zone 'Asia/Tokyo'")
    assert derived("s at time zone 'Asia/Tokyo'", zoned(zone)).to_list() == expected


WRITTEN = {
    "date_part('hour', n at time zone 'UTC' at time zone 'Asia/Tokyo')": 10,
    "date_part('hour', (n) At  Time /* of */ Zone 'UTC' at time zone 'Asia/Tokyo')": 10,
    "date_part('hour', n::timestamp at time zone 'UTC' at time zone 'Asia/Tokyo') + 1": 11,
    "1 + date_part('hour', cast(d as timestamp) at time zone 'UTC' at time zone 'Asia/Tokyo')": 10,
    "date_part('hour', timestamp '2021-06-01 01:00:00' at time zone 'UTC' at time zone 'Asia/Tokyo')": 10,
    "date_part('hour', date_trunc('hour', \"n\") at time zone 'UTC' at time zone 'Asia/Tokyo')": 10,
    "date_part('hour', coalesce(null, (n at time zone 'UTC')) at time zone 'Asia/Tokyo')": 10,
    "n < timestamp '2021-06-01 02:00:00' and (n at time zone 'UTC') = (n at time zone 'UTC')": True,
    "n at time zone 'Asia/Tokyo' < n at time zone 'Asia/Tokyo' + interval '1 hour'": True,
    "t = 'n at time zone 1'": False,
    "case when n at time zone 'UTC' at time zone 'Asia/Tokyo' > n then 1 end": 1,
}


@pytest.mark.parametrize("text", WRITTEN)
def test_at_time_zone__takes_the_value_that_stands_before_it(text: str) -> None:
    frame = pl.DataFrame({"n": [dt.datetime(2021, 6, 1, 1, 30)], "d": [dt.date(2021, 6, 1)], "t": ["x"]})
    assert derived(text, frame).item() == WRITTEN[text]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s at time zone 'Europe/Berln'", r"there is no time zone 'Europe/Berln'\. Did you mean 'Europe/Berlin'"),
        ("d at time zone 'UTC'", r"takes a timestamp, and the column 'd' is Date: cast it, as in cast\(d as timestamp\)"),
        ("s at time zone t", "takes the name of a zone, a text in quotes"),
        ("s at time zone", "takes the name of a zone, a text in quotes"),
        ("at time zone 'UTC'", "has no value before it"),
        ("case when true then s end at time zone 'UTC'", "brackets around x where it is more than a name"),
        ("1 + s) at time zone 'UTC'", "closes what nothing opens"),
    ],
)
def test_a_zone_or_value_that_is_none__is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        check_value(text, pl.Schema({"d": pl.Date(), "t": pl.String(), "s": pl.Datetime("us")}))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_at_time_zone__keeps_the_unit_that_is_counted_in(unit: Literal["ms", "us", "ns"]) -> None:
    frame = pl.DataFrame({"s": pl.Series([1], dtype=pl.Int64).cast(pl.Datetime(unit))})
    assert derived("s at time zone 'UTC'", frame).dtype == pl.Datetime(unit, "UTC")
    assert derived("s at time zone 'UTC' at time zone 'UTC'", frame).to_physical().to_list() == [1]
