"""date_parts."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.features.date_parts import PARTS, DateParts
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

TIMES = [
    dt.datetime(2021, 1, 1, 0, 0, 59),
    dt.datetime(2020, 12, 31, 23, 59),
    None,
    dt.datetime(2024, 2, 29, 6, 30),
    dt.datetime(1969, 7, 20, 20, 17),
]
FRAME = pl.DataFrame({"id": range(5), "time": TIMES}, schema_overrides={"time": pl.Datetime("us")}).with_columns(
    day=pl.col("time").dt.date()
)
ALL = DateParts.model_validate({"columns": "time", "parts": list(PARTS), "cyclic": ["month", "weekday", "hour", "minute"]})
EXAMPLES = [
    StageExample(ALL, {"rows": FRAME}, ordered=True),
    StageExample(DateParts(columns=("day",), parts=("week",), cyclic=("weekday",)), {"rows": FRAME}, ordered=True),
]


def test_date_parts__are_those_that_python_says() -> None:
    found = assert_same_for_any_parts(ALL, {"rows": FRAME}, ["id"])
    for row in found.iter_rows(named=True):
        time = row["time"]
        if time is None:
            assert {row[f"time_{part}"] for part in PARTS} == {None}
            continue
        parts = {"week": time.isocalendar().week, "weekday": time.isoweekday(), "day_of_year": time.timetuple().tm_yday}
        parts |= {"quarter": (time.month + 2) // 3} | {
            name: getattr(time, name) for name in ("year", "month", "day", "hour", "minute", "second")
        }
        assert {name: row[f"time_{name}"] for name in PARTS} == {name: parts[name] for name in PARTS}
        for name, first, period in (("month", 1, 12), ("weekday", 1, 7), ("hour", 0, 24), ("minute", 0, 60)):
            turn = 2 * math.pi * (parts[name] - first) / period
            assert (row[f"time_{name}_sin"], row[f"time_{name}_cos"]) == pytest.approx((math.sin(turn), math.cos(turn)), abs=1e-12)


def test_date_parts__of_a_zone_are_those_of_its_clock() -> None:
    frame = FRAME.select(pl.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))
    found = run_stage(DateParts(columns=("time",), parts=("day", "hour")), {"rows": frame})[""]
    assert found.select("time_day", "time_hour").rows() == [(1, 9), (1, 8), (None, None), (29, 15), (21, 5)]


def test_date_parts__refuses_what_does_not_fit() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"columns": "id", "parts": ["year"]}, "'id' is Int64, and only dates"),
        ({"columns": "day", "cyclic": ["hour"]}, "'day' is a date, which has no hour"),
    ]
    for given, message in refused:
        with pytest.raises(StageError, match=message):
            plan_stage(DateParts.model_validate(given), {"rows": FRAME})
    with pytest.raises(StageError, match="a column 'day_year' already"):
        plan_stage(DateParts(columns=("day",), parts=("year",)), {"rows": FRAME.with_columns(day_year=1)})
    with pytest.raises(ValidationError, match="give parts, cyclic or both"):
        DateParts(columns=("day",))
