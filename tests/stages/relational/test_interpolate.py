"""interpolate."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.stages.relational.interpolate import Interpolate
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_parts, run_stage
from tests.harness import genotypes

RANDOM = random.Random(9)
ROWS = 50
FRAME = pl.DataFrame(
    {
        "sensor": [RANDOM.choice(["a", "b", None]) for _ in range(ROWS)],
        "time": [RANDOM.choice([None, *[dt.datetime(2026, 3, 1) + dt.timedelta(minutes=RANDOM.randrange(300))] * 9]) for _ in range(ROWS)],
        "speed": [RANDOM.choice([None, None, round(RANDOM.gauss(80, 9), 1)]) for _ in range(ROWS)],
        "status": [RANDOM.choice([None, None, "free", "jam"]) for _ in range(ROWS)],
        "row": range(ROWS),
    }
)
METHODS = {"speed": "linear", "status": "forward"}
STAGE = Interpolate.model_validate({"by": "sensor", "order": "time", "columns": METHODS, "indicator": True})
LIMITED = {"order": "time", "method": "nearest", "limit": 2, "max_span": "20m"}
EXAMPLES = [
    StageExample(STAGE, {"rows": FRAME}),
    StageExample(STAGE, {"rows": FRAME.clear()}),
    StageExample(Interpolate.model_validate({"columns": ["speed", "status"], **LIMITED}), {"rows": FRAME}, ordered=True),
]
GAPS = pl.DataFrame({"t": [0, 1, 4, 5, 6, 10], "x": [None, 1, None, None, None, 10]})


def filled(**keys: Any) -> list[Any]:
    stage = Interpolate.model_validate({"order": "t", "columns": "x", **keys})
    return run_stage(stage, {"rows": GAPS}, 2)[""]["x"].to_list()


def test_linear__is_the_line_along_the_order_as_pandas_has_it() -> None:
    frame = FRAME.filter(pl.col("sensor") == "a", pl.col("time").is_not_null()).unique("time", keep="first").sort("time")
    found = run_stage(STAGE, {"rows": frame})[""]
    pandas = frame.to_pandas().set_index("time")["speed"].interpolate("time", limit_area="inside")
    np.testing.assert_allclose(found["speed"].to_numpy(), pandas.to_numpy(), rtol=1e-12)
    assert found["status"].to_list() == frame["status"].forward_fill().to_list()
    assert found["speed_filled"].to_list() == (frame["speed"].is_null() & found["speed"].is_not_null()).to_list()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [None, 1.0, 4.0, 5.0, 6.0, 10.0]),
        ({"spacing": "rows"}, [None, 1.0, 3.25, 5.5, 7.75, 10.0]),
        ({"limit": 2}, [None, 1.0, None, None, None, 10.0]),
        ({"limit": 3}, [None, 1.0, 4.0, 5.0, 6.0, 10.0]),
        ({"max_span": "8"}, [None, 1.0, None, None, None, 10.0]),
        ({"max_span": "9"}, [None, 1.0, 4.0, 5.0, 6.0, 10.0]),
        ({"method": "forward"}, [None, 1, 1, 1, 1, 10]),
        ({"method": "forward", "limit": 2}, [None, 1, 1, 1, None, 10]),
        ({"method": "forward", "max_span": "3"}, [None, 1, 1, None, None, 10]),
        ({"method": "backward", "limit": 1}, [1, 1, None, None, 10, 10]),
        ({"method": "nearest"}, [1, 1, 1, 1, 10, 10]),
        ({"method": "nearest", "spacing": "rows"}, [1, 1, 1, 1, 10, 10]),
        ({"method": "nearest", "max_span": "3"}, [1, 1, 1, None, None, 10]),
    ],
)
def test_limits__say_how_far_a_value_goes(keys: dict[str, Any], expected: list[Any]) -> None:
    assert filled(**keys) == expected


def test_interpolate__is_the_same_for_any_parts_and_order() -> None:
    found = assert_same_for_any_parts(STAGE, {"rows": FRAME}, ["row"])
    untimed = FRAME.filter(pl.col("time").is_null())
    assert found.filter(pl.col("time").is_null())["speed"].to_list() == untimed["speed"].to_list()


def test_interpolate__gives_rows_in_the_order_of_groups_and_keeps_their_calls() -> None:
    table, axes = genotypes()
    stage = Interpolate(by="chromosome", order="base_pair_location", columns=["variant_id"], method="forward")
    (part,) = run_parts(stage, {"rows": [table]}, axes=axes)[""]
    assert part.frame.equals(table.frame.sort("chromosome", "base_pair_location"))
    places = [table.frame["variant_id"].to_list().index(name) for name in part.frame["variant_id"]]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][places])


def test_ties__are_refused_where_asked() -> None:
    frame = pl.DataFrame({"t": [1, 2, 1], "x": [1.0, None, 3.0]})
    with pytest.raises(DataError, match="ties: rows of a group tie in 't', first in row 3"):
        run_stage(Interpolate(order="t", columns=["x"], ties="refuse"), {"rows": frame})


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"columns": "status"}, "columns: column 'status' is String, and numbers are needed"),
        ({"columns": "sped"}, "columns: the table has no column 'sped'"),
        ({"order": "speed"}, "order: column 'speed' is Float64: times are"),
        ({"columns": {"time": "forward"}}, "column 'time' says where rows stand"),
        ({"max_span": "1mo"}, "max_span: '1mo' is no span of 'time'"),
        ({"indicator": True}, "there is a column 'speed_filled' already"),
    ],
)
def test_interpolate__refuses_at_plan_time(keys: dict[str, Any], text: str) -> None:
    stage = Interpolate.model_validate({"by": "sensor", "order": "time", "columns": "speed", **keys})
    with pytest.raises(StageError, match=text):
        plan_stage(stage, {"rows": FRAME.with_columns(speed_filled=1)})


def test_a_method_beside_a_mapping__is_refused() -> None:
    with pytest.raises(ValidationError, match="leave out method"):
        Interpolate.model_validate({"order": "t", "columns": {"x": "linear"}, "method": "linear"})
