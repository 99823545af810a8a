"""resample by the clock of a zone, beside DuckDB and pandas."""

from __future__ import annotations

import datetime as dt

import duckdb
import polars as pl
import pytest

from pipeline.stages.relational.resample import Resample
from pipeline.testing.stages import assert_same_for_any_parts, run_stage

ZONES = {
    "Europe/Berlin": ["2021-03-25", "2021-10-28"],
    "America/Sao_Paulo": ["2018-11-01"],  # 4 November has no midnight
    "Pacific/Apia": ["2011-12-27"],  # there was no 30 December
    "Asia/Kolkata": ["1969-12-20"],
    "Australia/Lord_Howe": ["2021-04-01"],
}
CUTS = {"1d": "day", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}


def of_zone(zone: str, first: str) -> pl.DataFrame:
    """A moment every 7 minutes for 8 days."""
    start = dt.datetime.fromisoformat(first)
    times = pl.datetime_range(start, start + dt.timedelta(days=8), "7m", time_unit="us", time_zone="UTC", eager=True)
    return pl.DataFrame({"t": times.dt.convert_time_zone(zone)})


@pytest.mark.parametrize("every", ["1h", "2h", "6h", "12h", "1d", "1w", "1mo", "1q", "1y"])
@pytest.mark.parametrize("zone", sorted(ZONES))
def test_steps_of_a_zone__are_those_of_duckdb(zone: str, every: str) -> None:
    if (zone, every) == ("Australia/Lord_Howe", "1h"):
        return  # half an hour of summer time: refused
    clock = f"(t at time zone '{zone}')"
    bucket = f"time_bucket(interval '{every.removesuffix('h')} hours', {clock})"
    before = f"(({bucket} - interval '30 minutes') at time zone '{zone}') + interval '30 minutes'"
    bucket = f"least({bucket} at time zone '{zone}', {before})"  # the first of two
    hour = f"t - ({clock} - date_trunc('hour', {clock}))"  # an hour that is shown twice is two
    cut = f"date_trunc('{CUTS[every]}', t)" if every in CUTS else hour if every == "1h" else bucket
    for first in ZONES[zone]:
        rows = of_zone(zone, first)
        with duckdb.connect() as connection:
            connection.execute(f"set TimeZone = '{zone}'")
            connection.register("rows", rows.to_arrow())
            theirs = pl.from_arrow(connection.sql(f"select {cut} as t, count(*) as n from rows group by all order by all").to_arrow_table())
        stage = Resample.model_validate({"time": "t", "every": every, "compute": {"n": "size()"}, "gaps": "zero"})
        ours = run_stage(stage, {"rows": rows}, 3)[""]
        assert isinstance(theirs, pl.DataFrame)
        instants = [frame.select(pl.col("t").dt.convert_time_zone("UTC"), pl.col("n").cast(pl.Int64)).rows() for frame in (ours, theirs)]
        assert instants[0] == instants[1]
        assert ours["t"].dtype == rows["t"].dtype


def test_days_of_23_and_25_hours__are_those_of_pandas() -> None:
    for first in ZONES["Europe/Berlin"]:
        rows = of_zone("Europe/Berlin", first)
        stage = Resample.model_validate({"time": "t", "every": "1d", "compute": {"n": "size()"}, "gaps": "zero"})
        found, pandas = assert_same_for_any_parts(stage, {"rows": rows}, ["t"]), rows.to_pandas().resample("D", on="t").size()
        assert found["t"].dt.epoch("s").to_list() == [int(moment.timestamp()) for moment in pandas.index]
        assert found["n"].to_list() == pandas.to_list()


def test_a_day_with_two_midnights__begins_at_the_first() -> None:
    rows = of_zone("America/Havana", "2021-11-05")
    found = run_stage(Resample.model_validate({"time": "t", "every": "1d", "compute": {"n": "size()"}}), {"rows": rows}, 2)[""]
    begins = found["t"].dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_list()
    assert begins[2:5] == [dt.datetime(2021, 11, 6, 4), dt.datetime(2021, 11, 7, 4), dt.datetime(2021, 11, 8, 5)]
    assert sum(found["n"]) == len(rows)
