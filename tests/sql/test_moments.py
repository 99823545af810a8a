"""date_trunc and `at time zone`: what DuckDB answers, by the local clock of a zone, twice shown and skipped hours too."""

from __future__ import annotations

import datetime as dt

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
