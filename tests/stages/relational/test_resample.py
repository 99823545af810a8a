"""resample."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.relational.resample import Resample
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

RANDOM = random.Random(5)
ROWS = 60
FRAME = pl.DataFrame(
    {
        "sensor": [RANDOM.choice(["a", "a", "b", None]) for _ in range(ROWS)],
        "time": [
            RANDOM.choice([None, *[dt.datetime(2024, 2, 28, 22) + dt.timedelta(minutes=7 * RANDOM.randrange(90))] * 9]) for _ in range(ROWS)
        ],
        "speed": [RANDOM.choice([None, round(RANDOM.gauss(80, 9), 1)]) for _ in range(ROWS)],
        "cars": [RANDOM.randrange(50) for _ in range(ROWS)],
    }
)
COMPUTE: dict[str, Any] = {
    "rows": "size()",
    "cars": "sum(cars)",
    "speed": "mean(speed)",
    "last": {"function": "last", "of": "cars", "order_by": "time"},
}
GAPS = {"rows": "zero", "speed": "interpolate", "last": "forward"}
STAGE = Resample.model_validate({"by": "sensor", "time": "time", "every": "15m", "compute": COMPUTE, "gaps": GAPS})
EXAMPLES = [
    StageExample(STAGE, {"rows": FRAME}),
    StageExample(STAGE, {"rows": FRAME.clear()}),
    StageExample(Resample.model_validate({"time": "time", "every": "1mo", "compute": COMPUTE}), {"rows": FRAME}),
    StageExample(
        Resample.model_validate({"by": "sensor", "time": "day", "every": "1w", "compute": {"n": "count(speed)"}, "gaps": "zero"}),
        {"rows": FRAME.with_columns(day=pl.col("time").dt.date())},
    ),
    StageExample(
        Resample.model_validate({"time": "cars", "every": "7", "compute": {"n": "median(speed)"}, "gaps": "interpolate"}), {"rows": FRAME}
    ),
]
DAYS = pl.DataFrame({"day": [dt.date(1899, 12, 31) + dt.timedelta(days=RANDOM.randrange(80_000)) for _ in range(300)]})


@pytest.mark.parametrize(("every", "pandas"), [("1mo", "MS"), ("1q", "QS"), ("1y", "YS"), ("2w", ""), ("1d", "D"), ("10d", "")])
def test_steps__begin_where_polars_and_pandas_have_them(every: str, pandas: str) -> None:
    for column in (pl.col("day"), pl.col("day").cast(pl.Datetime("ms")).dt.offset_by("5h").alias("day")):
        frame = DAYS.select(column)
        found = run_stage(Resample.model_validate({"time": "day", "every": every, "compute": {"n": "size()"}}), {"rows": frame}, 2)[""]
        assert found["day"].to_list() == frame["day"].dt.truncate(every).unique().sort().to_list()
        if pandas:
            counts = frame.to_pandas().assign(day=lambda rows: rows["day"].astype("M8[ms]")).resample(pandas, on="day").size()
            counts = counts[counts > 0]
            assert found["day"].cast(pl.Datetime("ms")).to_list() == counts.index.to_pydatetime().tolist()
            assert found["n"].to_list() == counts.to_list()


def test_gaps__are_filled_from_first_to_last_as_pandas_does() -> None:
    frame = FRAME.filter(pl.col("sensor") == "a", pl.col("time").is_not_null())
    found = run_stage(STAGE, {"rows": frame})[""]
    pandas = frame.to_pandas().resample("15min", on="time").agg({"cars": ["size", "sum"], "speed": "mean"})
    assert found["time"].to_list() == pandas.index.to_pydatetime().tolist()
    assert found["rows"].to_list() == pandas["cars", "size"].to_list()
    empty = (pandas["cars", "size"] == 0).to_list()
    assert found["cars"].is_null().to_list() == empty
    line = pandas["speed", "mean"].interpolate("time", limit_area="inside")
    assert found.filter(pl.Series(empty))["speed"].fill_null(-1.0).to_list() == pytest.approx(line[empty].fillna(-1.0).to_list())
    assert not found["last"].has_nulls()


def test_what_is_null_in_a_step_with_rows__stays_so() -> None:
    frame = pl.DataFrame({"t": [0, 1, 4], "x": [1.0, None, 4.0]})
    stage = Resample.model_validate(
        {"time": "t", "every": "1", "compute": {"line": "mean(x)", "last": "max(x)"}, "gaps": {"line": "interpolate", "last": "forward"}}
    )
    found = run_stage(stage, {"rows": frame})[""]
    assert found.rows() == [(0, 1.0, 1.0), (1, None, None), (2, 2.5, 1.0), (3, 3.25, 1.0), (4, 4.0, 4.0)]


def test_resample__is_the_same_for_any_parts_and_order() -> None:
    found = assert_same_for_any_parts(STAGE, {"rows": FRAME}, ["sensor", "time"])
    assert found["time"].null_count() == FRAME.filter(pl.col("time").is_null())["sensor"].n_unique()


def test_steps_of_numbers__are_counted_from_0_and_fail_below_int64() -> None:
    stage = Resample.model_validate({"time": "t", "every": "100", "compute": {"n": "size()"}})
    frame = pl.DataFrame({"t": [-128, -100, -1, 0, 127]}, schema={"t": pl.Int8})
    assert run_stage(stage, {"rows": frame})[""].rows() == [(-200, 1), (-100, 2), (0, 1), (100, 1)]
    with pytest.raises(
        DataError, match=r"stage tested\.time: a step begins before the least Int64, first in row 2 of its part, where t is -92"
    ):
        run_stage(stage, {"rows": pl.DataFrame({"t": [1, -(2**63)]})})


def test_too_many_steps__are_refused_before_they_are_made() -> None:
    frame = pl.DataFrame({"t": [dt.datetime(1970, 1, 1), dt.datetime(2026, 1, 1)]})
    stage = Resample.model_validate({"time": "t", "every": "1ms", "compute": {"n": "size()"}, "gaps": "zero"})
    with pytest.raises(DataError, match=r"every: from the first to the last there would be 1,767,225,600,001 steps"):
        run_stage(stage, {"rows": frame})


def test_an_offset__has_steps_begin_later_as_pandas_does() -> None:
    frame = FRAME.drop_nulls("time")
    stage = Resample.model_validate({"time": "time", "every": "8h", "offset": "30h", "compute": {"n": "size()"}, "gaps": "zero"})
    pandas = frame.to_pandas().resample("8h", on="time", offset="30h").size()
    assert run_stage(stage, {"rows": frame}, 2)[""].rows() == list(zip(pandas.index.to_pydatetime(), pandas, strict=True))


def test_quarters_of_an_hour__are_those_of_any_zone() -> None:
    zoned = DAYS.select(
        pl.datetime_range(dt.datetime(2026, 3, 28, 22), dt.datetime(2026, 3, 29, 6), "7m", time_zone="Europe/Berlin").alias("t")
    )
    found = run_stage(Resample.model_validate({"time": "t", "every": "15m", "compute": {"n": "size()"}}), {"rows": zoned}, 2)[""]
    assert found["t"].to_list() == zoned["t"].dt.truncate("15m").unique().sort().to_list()
    assert found["t"].dtype == zoned["t"].dtype


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"every": "1 month"}, r"every: '1 month' is no step of 'time'"),
        ({"time": "day", "every": "1h"}, r"every: '1h' is no step of 'day', which is Date. Give a number of d, w, mo, q or y"),
        ({"time": "cars", "every": "1h"}, "Give a whole number, such as 5"),
        ({"time": "speed"}, "time: column 'speed' is Float64: times are"),
        (
            {"time": "zoned"},
            "every: the clock of Australia/Lord_Howe moved by no whole steps of 1h of 'zoned'. Take a step that divides 15m",
        ),
        ({"every": "1mo", "offset": "1d"}, "offset: steps of the calendar begin with their month"),
        ({"offset": "half"}, "offset: 'half' is no span of 'time'"),
        ({"compute": {"time": "size()"}}, "'time' would be two columns of the result"),
        ({"compute": {"n": "sum(sensor)"}}, r"compute\.n: sum\(sensor\) needs numbers"),
        ({"gaps": {"m": "zero"}}, "gaps: the table has no column 'm'"),
        ({"gaps": {"n": "none"}}, "none leaves out whole rows"),
        ({"compute": {"n": "min(sensor)"}, "gaps": "zero"}, "gaps: zero needs numbers, and 'n' is String"),
        ({"compute": {"n": "list(sensor)"}, "gaps": "zero"}, r"gaps: zero needs numbers, and 'n' is List\(String\)"),
    ],
)
def test_resample__refuses_at_plan_time(keys: dict[str, Any], text: str) -> None:
    zoned = FRAME.with_columns(day=pl.col("time").dt.date(), zoned=pl.col("time").dt.replace_time_zone("Australia/Lord_Howe"))
    stage = Resample.model_validate({"by": "sensor", "time": "time", "every": "1h", "compute": {"n": "size()"}, **keys})
    with pytest.raises(StageError, match=text):
        plan_stage(stage, {"rows": zoned})


def test_null_without_quotes__is_the_rule_null() -> None:
    keys: dict[str, Any] = {"by": "sensor", "time": "time", "every": "1h", "compute": {"n": "size()"}}
    assert Resample.model_validate({**keys, "gaps": None}) == Resample.model_validate({**keys, "gaps": "null"})
    assert Resample.model_validate({**keys, "gaps": {"n": None}}) == Resample.model_validate({**keys, "gaps": {"n": "null"}})
