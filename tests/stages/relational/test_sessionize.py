"""sessionize."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational.sessionize import Sessionize
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage

RANDOM = random.Random(4)
ROWS = 60
FRAME = pl.DataFrame(
    {
        "user": [RANDOM.choice(["a", "b", "c", None]) for _ in range(ROWS)],
        "time": [RANDOM.choice([None, *[dt.datetime(2026, 3, 1) + dt.timedelta(minutes=RANDOM.randrange(600))] * 9]) for _ in range(ROWS)],
        "row": range(ROWS),
    }
)
STAGE = Sessionize(by="user", time="time", gap="30m")
EXAMPLES = [
    StageExample(STAGE, {"rows": FRAME}),
    StageExample(STAGE, {"rows": FRAME.clear()}),
    StageExample(Sessionize(time="row", gap="1", column="run"), {"rows": FRAME.filter(pl.col("row") % 5 > 1)}, ordered=True),
]


def test_sessionize__begins_a_session_after_more_than_the_gap() -> None:
    frame = pl.DataFrame({"t": [0, 30, 61, 61, 92, None], "u": [1, 1, 1, 1, 1, 1]})
    found = run_stage(Sessionize(by="u", time="t", gap="30"), {"rows": frame})[""]
    assert found["session"].to_list() == [1, 1, 2, 2, 3, None]


def test_sessionize__is_what_pandas_counts_by_user() -> None:
    found = assert_same_for_any_parts(STAGE, {"rows": FRAME}, ["row"])
    pandas = FRAME.to_pandas().sort_values("time")
    since = pandas.groupby("user", dropna=False)["time"].diff()
    pandas["session"] = (since.isna() | (since > dt.timedelta(minutes=30))).groupby(pandas["user"], dropna=False).cumsum()
    known = pandas[pandas["time"].notna()].sort_values("row")
    assert found.filter(pl.col("time").is_not_null())["session"].to_list() == known["session"].to_list()


def test_a_time_that_is_very_far__is_a_session_of_its_own() -> None:
    frame = pl.DataFrame({"t": [-(2**63), 2**63 - 1]})
    assert run_stage(Sessionize(time="t", gap="5"), {"rows": frame})[""]["session"].to_list() == [1, 2]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"time": "tim"}, "time: the table has no column 'tim'"),
        ({"time": "user"}, "time: column 'user' is String: times are"),
        ({"gap": "half an hour"}, "gap: 'half an hour' is no span of 'time'"),
        ({"column": "row"}, "column: there is a column 'row' already"),
    ],
)
def test_sessionize__refuses_at_plan_time(keys: dict[str, Any], text: str) -> None:
    stage = Sessionize.model_validate({"by": "user", "time": "time", "gap": "30m", **keys})
    with pytest.raises(StageError, match=text):
        plan_stage(stage, {"rows": FRAME})
