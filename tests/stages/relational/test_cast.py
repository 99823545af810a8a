"""cast."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, RunError, StageError
from pipeline.stages.relational.cast import Cast
from pipeline.tables.dtypes import DTYPES
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
    StageExample(Cast(columns={"id": "float32", "text": "uint64"}), {"rows": examples.MIXED}),
    StageExample(
        Cast(columns={"d": "int64", "s": "string", "e": "datetime", "f": "date"}, strict=False),
        {
            "rows": examples.MIXED.select(
                d=pl.col("id").cast(pl.Decimal(15, 2)),
                s=pl.col("id").cast(pl.Datetime("us")),
                e=pl.col("id").cast(pl.Datetime("ns")),
                f=pl.col("id").cast(pl.Datetime("us")),
            )
        },
    ),
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
        ([Decimal("12.0"), None], "int8", [12, None]),
        ([Decimal("9007199254740993.00")], "int64", [2**53 + 1]),
        ([Decimal("12345678901234567891")], "uint64", [12345678901234567891]),
        ([Decimal("0.1")], "float64", [0.1]),
        (["18446744073709551615", "-0", "7"], "uint64", [2**64 - 1, 0, 7]),
        ([2**53, -(2**53)], "float64", [2.0**53, -(2.0**53)]),
        ([0.1], "float32", [struct.unpack("f", struct.pack("f", 0.1))[0]]),
        ([math.nan, math.inf], "float32", [None, None]),
        (["-inf", " NaN"], "float32", [None, None]),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_cast__converts_what_fits(values: list[Any], to: str, expected: list[Any], strict: bool) -> None:
    stage = Cast.model_validate({"columns": {"x": to}, "strict": strict})
    assert run_stage(stage, {"rows": pl.DataFrame({"x": values})})[""]["x"].to_list() == expected


@pytest.mark.parametrize(
    ("values", "to", "example", "rest"),
    [
        (["1", "two"], "int64", "'two'", [1, None]),
        (["1", "300"], "int8", "'300'", [1, None]),
        (["1", "two"], "float64", "'two'", [1.0, None]),
        (["1", "1e400"], "float64", "'1e400'", [1.0, None]),
        (["1", "18446744073709551616"], "uint64", "'18446744073709551616'", [1, None]),
        ([1e300, 0.5], "float32", r"1e\+300", [None, 0.5]),
        ([2**24 + 1, 2**24], "float32", "16777217", [None, 2.0**24]),
        ([2**53 + 1, 2**53], "float64", "9007199254740993", [None, 2.0**53]),
        ([2**63 - 1, -(2**63)], "float64", "9223372036854775807", [None, -(2.0**63)]),
        ([Decimal("12345678901234567891"), Decimal("9007199254740993")], "int64", "12345678901234567891", [None, 2**53 + 1]),
        (
            [dt.datetime(2020, 1, 1, 1, 1, 1, 5), dt.datetime(2020, 1, 1)],
            "string",
            "2020-01-01 01:01:01.000005",
            [None, "2020-01-01 00:00:00"],
        ),
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
    example = example.replace("9223372036854775808", "9.223372036854776e")
    with pytest.raises(RunError, match=r"'x'(.|\n)*" + example):
        run_stage(Cast.model_validate({"columns": {"x": to}}), {"rows": frame})
    assert run_stage(Cast.model_validate({"columns": {"x": to}, "strict": False}), {"rows": frame})[""]["x"].to_list() == rest


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
BITS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)
NUMBERS = [0, 1, -1, 100, *(sign * 2**bits + step for bits in BITS for sign in (1, -1) for step in (-1, 0, 1))]
FROM_TO = [*product([*INTEGERS, "decimal"], INTEGERS), *product(INTEGERS, ["float32", "float64", "string"])]


@pytest.mark.parametrize(("old", "new"), FROM_TO)
def test_cast__keeps_every_value_or_names_it(old: str, new: str) -> None:
    """Around every power of 2 that ends a type: turned back by Python, a value is the same, or the cast fails on it alone."""
    dtype = pl.Decimal(38, 3) if old == "decimal" else DTYPES[old]
    given = pl.Series("x", [str(number) for number in NUMBERS]).cast(dtype, strict=False).drop_nulls()
    loose = run_stage(Cast.model_validate({"columns": {"x": new}, "strict": False}), {"rows": given.to_frame()})[""]["x"]
    kept = [value is not None for value in loose]
    same = [int(Decimal(value)) if isinstance(value, str) else int(value) for value in loose.drop_nulls()]
    assert same == [int(value) for value in given.filter(pl.Series(kept))]
    assert kept == [holds(new, int(value)) for value in given]
    strict = Cast.model_validate({"columns": {"x": new}})
    assert run_stage(strict, {"rows": given.filter(pl.Series(kept)).to_frame()})[""]["x"].to_list() == loose.drop_nulls().to_list()
    for row in given.filter(~pl.Series(kept)).to_frame().iter_slices(1):
        with pytest.raises(
            DataError, match=rf"columns\.x: .*cannot be cast to {new}: a value does not fit, first in row 1 of its part, where x is"
        ):
            run_stage(strict, {"rows": row})


def holds(name: str, value: int) -> bool:
    """Whether a type of that name has this whole number."""
    if name == "string":
        return True
    if name.startswith("float"):
        with np.errstate(all="ignore"):
            return int(np.dtype(name).type(value)) == value
    return np.iinfo(name).min <= value <= np.iinfo(name).max


def test_cast__of_nanoseconds_does_not_cut_them() -> None:
    frame = pl.DataFrame({"x": pl.Series([5_000, 5_001], dtype=pl.Datetime("ns"))})
    with pytest.raises(DataError, match=r"first in row 2 of its part, where x is 1970-01-01 00:00:00\.000005001"):
        run_stage(Cast(columns={"x": "datetime"}), {"rows": frame})
    loose = run_stage(Cast(columns={"x": "datetime"}, strict=False), {"rows": frame})[""]["x"]
    assert loose.to_list() == [dt.datetime(1970, 1, 1, 0, 0, 0, 5), None]
    far = pl.DataFrame({"x": pl.Series([2**63 - 1], dtype=pl.Datetime("ms"))})
    with pytest.raises(DataError, match="where x is 9223372036854775807"):
        run_stage(Cast(columns={"x": "datetime"}), {"rows": far})


def test_cast__of_a_zone_follows_the_local_clock() -> None:
    """Half past midnight in Berlin, which is the day before in UTC."""
    berlin = pl.Series("x", [dt.datetime(2021, 5, 31, 22, 30)]).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    frame = berlin.to_frame()
    assert run_stage(Cast(columns={"x": "date"}), {"rows": frame})[""].item() == dt.date(2021, 6, 1)
    assert run_stage(Cast(columns={"x": "string"}), {"rows": frame})[""].item() == "2021-06-01 00:30:00"
    assert run_stage(Cast(columns={"x": "datetime"}, strict=False), {"rows": frame})[""].item() == dt.datetime(2021, 6, 1, 0, 30)
    with pytest.raises(StageError, match=r"that type has no time zone\. With strict: false it becomes what the local clock shows"):
        plan_stage(Cast(columns={"x": "datetime"}), {"rows": frame})


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
