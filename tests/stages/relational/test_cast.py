"""cast."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import RunError, StageError
from pipeline.stages.relational.cast import Cast
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

WELL_FORMED = {"text": "int64", "day": "date", "n": "int8", "x": "float32", "flag": "string", "id": "boolean"}
SOME_ILL = {"text": "int8", "day": "datetime", "x": "int16", "flag": "int8", "id": "uint64", "key": "boolean"}
EXAMPLES = [
    StageExample(
        Cast(columns=WELL_FORMED),
        {"rows": examples.MIXED},
    ),
    StageExample(
        Cast(columns=SOME_ILL, strict=False),
        {"rows": examples.MIXED},
    ),
    StageExample(Cast(columns={"text": "float32", "n": "string", "id": "uint8"}), {"rows": examples.MIXED}),
]


@pytest.mark.parametrize(
    ("values", "to", "expected"),
    [
        ([" 12", "-3", None], "int64", [12, -3, None]),
        ([" 12", "-3", None], "int8", [12, -3, None]),
        (["0.5 ", "1e3", "nan"], "float64", [0.5, 1000.0, None]),
        (["Yes", "0", " false"], "boolean", [True, False, False]),
        (["2020-02-29", None], "date", [dt.date(2020, 2, 29), None]),
        (["2020-02-29 10:20:30"], "datetime", [dt.datetime(2020, 2, 29, 10, 20, 30)]),
        ([1.0, -2.0, None], "int32", [1, -2, None]),
        ([127, -128, None], "int8", [127, -128, None]),
        ([255, 0], "uint8", [255, 0]),
        ([1, 0, None], "boolean", [True, False, None]),
        ([True, None], "int64", [1, None]),
        ([12, None], "string", ["12", None]),
        ([True, False], "string", ["true", "false"]),
        ([dt.date(2020, 2, 29)], "string", ["2020-02-29"]),
        ([dt.date(2020, 2, 29)], "datetime", [dt.datetime(2020, 2, 29)]),
        ([1e39, 1.5], "float32", [None, 1.5]),
        ([Decimal("12.0"), None], "int8", [12, None]),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_cast__converts_what_fits(values: list[Any], to: str, expected: list[Any], strict: bool) -> None:
    stage = Cast.model_validate({"columns": {"x": to}, "strict": strict})
    assert run_stage(stage, {"rows": pl.DataFrame({"x": values})})[""]["x"].to_list() == expected


@pytest.mark.parametrize(
    ("values", "to", "example", "rest"),
    [
        (["1", "two"], "int64", '"two"', [1, None]),
        (["1", "300"], "int8", "'300'", [1, None]),
        (["1", "two"], "float64", '"two"', [1.0, None]),
        (["maybe", "t"], "boolean", "'maybe'", [None, True]),
        (["2020-02-29", "29.02.2020"], "date", "29.02.2020", [dt.date(2020, 2, 29), None]),
        ([1.5, 2.0], "int64", "1.5", [None, 2]),
        ([2.0**63, -(2.0**63)], "int64", "9223372036854775808", [None, -(2**63)]),
        ([300, 3], "int8", "300", [None, 3]),
        ([-1, 3], "uint64", "-1", [None, 3]),
        ([Decimal("1.5"), Decimal("3.0")], "int64", "1.5", [None, 3]),
    ],
)
def test_cast__names_values_that_do_not_fit(values: list[Any], to: str, example: str, rest: list[Any]) -> None:
    frame = pl.DataFrame({"x": values})
    with pytest.raises(RunError, match=r"'x'(.|\n)*" + example.replace("9223372036854775808", "9.223372036854776e")):
        run_stage(Cast.model_validate({"columns": {"x": to}}), {"rows": frame})
    assert run_stage(Cast.model_validate({"columns": {"x": to}, "strict": False}), {"rows": frame})[""]["x"].to_list() == rest


def test_cast__reads_dates_in_a_stated_format() -> None:
    stage = Cast(columns={"x": "date"}, format="%d.%m.%Y")
    assert run_stage(stage, {"rows": pl.DataFrame({"x": ["29.02.2020"]})})[""]["x"].to_list() == [dt.date(2020, 2, 29)]


def test_cast__is_the_same_for_any_parts() -> None:
    frame = pl.DataFrame({"id": range(8), "x": ["1", "2", None, "x", "5", "", "7", "800"]})
    assert_same_for_any_parts(Cast(columns={"x": "int8", "id": "int16"}, strict=False), {"rows": frame}, ["id"])


def test_cast__refuses_at_plan_time() -> None:
    frame = pl.DataFrame({"x": [0.5], "d": [dt.date(2020, 1, 1)], "l": [[1]]})
    for columns, message in [
        ({"y": "int8"}, "no column 'y'"),
        ({"x": "string"}, "no one spelling"),
        ({"d": "int64"}, "a date is no number"),
        ({"x": "date"}, "a date is no number"),
        ({"l": "int64"}, "only numbers"),
    ]:
        with pytest.raises(StageError, match=message):
            plan_stage(Cast.model_validate({"columns": columns}), {"rows": frame})
    with pytest.raises(StageError, match="no column is cast to one"):
        plan_stage(Cast(columns={"x": "int64"}, format="%Y"), {"rows": frame})
    with pytest.raises(ValidationError, match="float64"):
        Cast.model_validate({"columns": {"x": "double"}})
