"""Operators in forms that cuDF answers alike: on a CPU they answer what Polars' own do."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_series_equal

from pipeline.sql.alike import dated
from pipeline.sql.expression import check_value


def answer(text: str, rows: pl.DataFrame) -> pl.Series:
    """The column of an expression."""
    return rows.lazy().select(value=check_value(text, rows.schema)[0]).collect(engine="streaming")["value"]


def floats(count: int = 20_000) -> Any:
    """Numbers of all sizes, and many that end in a half of some decimal."""
    random = np.random.default_rng(20261122)
    sizes = random.normal(size=count) * 10.0 ** random.integers(-9, 300, count)
    halves = random.integers(-5_000, 5_000, count) / random.choice([2, 20, 200, 2_000], count)
    return np.concatenate([sizes, halves, random.normal(size=count), [0.0, -0.0, 2.675, 1e308]])


@pytest.mark.parametrize("decimals", [0, 1, 2, 3, 5, 8, 15, 20])
def test_round__is_polars_own(decimals: int) -> None:
    rows = pl.DataFrame({"x": floats()}).with_columns(f=pl.col("x").clip(-1e30, 1e30).cast(pl.Float32), i=pl.lit(7))
    for name in ("x", "i"):
        assert_series_equal(answer(f"round({name}, {decimals})", rows), rows[name].round(decimals), check_names=False, check_exact=True)
    near = answer(f"round(f, {decimals})", rows)
    assert near.dtype == pl.Float32
    assert_series_equal(near, rows["f"].round(decimals), check_names=False, rel_tol=1e-6)


def test_remainder__is_polars_own() -> None:
    x = floats()
    rows = pl.DataFrame({"x": x, "y": np.roll(x, 3)}).filter(pl.col("y") != 0)
    for text, own in (("x % y", rows["x"] % rows["y"]), ("x % 0.3", rows["x"] % 0.3), ("x % -7", rows["x"] % -7.0)):
        assert_series_equal(answer(text, rows), own, check_names=False, check_exact=True)
    assert answer("x % y", pl.DataFrame({"x": [1.0, 2.0], "y": [0.0, None]}, schema={"x": pl.Float64, "y": pl.Float64})).null_count() == 2


@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt64])
def test_remainder_of_integers__is_pythons_also_of_great_ones(dtype: Any) -> None:
    least, most = (0, 2**64 - 1) if dtype == pl.UInt64 else (-(2**63), 2**63 - 1)
    values = [least, least + 1, most, most - 1, most // 2 + 1, 3, 7, *([-1, -5] if least else [])]
    pairs = [(a, b) for a in values for b in values if b != 0]
    rows = pl.DataFrame({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}, schema={"a": dtype, "b": dtype})
    assert answer("a % b", rows).to_list() == [a % b for a, b in pairs]
    assert answer("a % 9223372036854775807", rows).to_list() == [a % (2**63 - 1) for a, _ in pairs]


NUMBERS = [0.0, -0.5, 1.5, -1.5, 127.9, 128.0, -128.9, -129.0, 2.0**31, 2.0**53 + 2, -(2.0**63), 2.0**63, 2.0**64, 1e300]
WHOLE: dict[str, Any] = {"tinyint": pl.Int8, "smallint": pl.Int16, "int": pl.Int32, "bigint": pl.Int64}
OTHERS = {
    "floats": pl.Series(NUMBERS),
    "floats of 32 bits": pl.Series(NUMBERS[:-1], dtype=pl.Float32),
    "integers": pl.Series([0, -1, 127, 128, -128, -129, 2**31, -(2**63), 2**63 - 1]),
    "unsigned integers": pl.Series([0, 127, 128, 2**31, 2**63, 2**64 - 1], dtype=pl.UInt64),
    "decimals": pl.Series(["0.00", "-0.50", "127.99", "128.00", "-128.99", "-129.00", "99999999999.00"]).cast(pl.Decimal(20, 2)),
    "texts": pl.Series(
        ["0", "-1", "+5", "05", " 5", "5 ", "1e3", "5.0", "", "x", "127", "128", "99999999999999999999", "9223372036854775807"]
    ),
}


@pytest.mark.parametrize("to", list(WHOLE))
@pytest.mark.parametrize("values", OTHERS.values(), ids=OTHERS)
def test_a_cast_to_integers__keeps_and_refuses_what_polars_does(values: pl.Series, to: str) -> None:
    rows = pl.DataFrame({"x": [*values, None]}, schema={"x": values.dtype})
    number = rows["x"].round(0) if rows["x"].dtype.is_float() or rows["x"].dtype.is_decimal() else rows["x"]
    own = number.cast(WHOLE[to], strict=False)
    assert_series_equal(answer(f"try_cast(x as {to})", rows), own, check_names=False)
    for value, kept in zip(rows["x"], own, strict=True):
        one = pl.DataFrame({"x": [value]}, schema=rows.schema)
        if kept is None and value is not None:
            with pytest.raises(pl.exceptions.InvalidOperationError, match=rf"check failed: .*cast to {WHOLE[to]}: a value does not fit"):
                answer(f"cast(x as {to})", one)
        else:
            assert answer(f"cast(x as {to})", one).to_list() == [kept]


def test_a_cast_of_nan__is_null() -> None:
    rows = pl.DataFrame({"x": [math.nan]})
    assert answer("try_cast(x as bigint)", rows).to_list() == [None]
    assert answer("cast(x as bigint)", rows).to_list() == [None]


@pytest.mark.parametrize("scale", [0, 1, 2, 5, 9])
def test_a_cast_of_floats_to_decimals__is_polars_own(scale: int) -> None:
    rows = pl.DataFrame({"x": floats()}).filter(pl.col("x").abs() < 1e9)
    for dtype in (pl.Float64, pl.Float32):
        given = rows.cast(dtype)
        assert_series_equal(answer(f"cast(x as decimal(30, {scale}))", given), given["x"].cast(pl.Decimal(30, scale)), check_names=False)


def test_a_cast_of_decimals_to_fewer_digits__is_polars_own() -> None:
    texts = ["999.94", "999.95", "999.96", "-999.95", "-999.94", "1000.00", "0.05", "0.15", "99999999999999999999.99"]
    rows = pl.DataFrame({"x": pl.Series([*texts, None]).cast(pl.Decimal(38, 2))})
    own = rows["x"].cast(pl.Decimal(4, 1), strict=False)
    assert answer("try_cast(x as decimal(4, 1))", rows).to_list() == own.to_list()
    assert answer("try_cast(x as decimal(5, 2))", rows).to_list() == rows["x"].cast(pl.Decimal(5, 2), strict=False).to_list()


def test_parts_of_a_timestamp_with_a_zone__are_of_its_local_clock() -> None:
    noon = pl.DataFrame({"z": [dt.datetime(2020, 7, 1, 23, 30)]}).with_columns(pl.col("z").dt.replace_time_zone("UTC"))
    rows = noon.with_columns(pl.col("z").dt.convert_time_zone("Europe/Berlin"))
    assert answer("date_part('hour', z)", rows).to_list() == [1]
    assert answer("date_part('day', z)", rows).to_list() == [2]


def test_days__are_dates_whatever_integers_hold_them() -> None:
    days = [0, 1, -1, 18_414, -719_162, 2_932_896]
    for dtype in (pl.Int64, pl.Int32):
        rows = pl.DataFrame({"x": [*days, None]}, schema={"x": dtype})
        for text in ("cast(x as date)", "try_cast(x as date)"):
            assert_series_equal(answer(text, rows), rows["x"].cast(pl.Date), check_names=False)
    unsigned = pl.DataFrame({"x": [18_414, 2**64 - 1]}, schema={"x": pl.UInt64})
    assert answer("try_cast(x as date)", unsigned).to_list() == [dt.date(2020, 6, 1), None]
    with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*cast to Date: a value does not fit"):
        answer("cast(x as date)", pl.DataFrame({"x": [10**8 + 1]}))


DATES = ["2020-06-01", "2020-6-1", " 2020-06-01", "2020- 6- 1", "+2020-06-01", "-20-06-01", "2-6-1", "2020-02-30", "2020-13-01", "", "x"]
DATES += (
    [f"2020-06-01{more}" for more in ("x", " ", "1", " 5", "\n", "-", " 10:20:30", "T10:20:30", "\t")]
    + ["\t2020-06-01", "2020-\u00a06-01"]
    + ["12020-06-01", "2020-06"]
)
BEHIND = (
    "",
    " 10:20",
    " 10:20:30",
    "10:20:30",
    "  1:2:3",
    "\t10:20:30",
    "\n10:20:30",
    "\u300010:20:\u20285",
    " 10:20:60",
    " 24:00:00",
    " 10:20:30.5",
    " 10:20:30Z",
)
TIMES = [f"2020-06-01{more}" for more in BEHIND]
LAYOUTS = [("%Y-%m-%d", DATES), ("%Y-%m-%d %H:%M:%S", [*TIMES, *DATES]), ("%Y-%m-%d %H:%M", TIMES), ("on %Y-%m-%d.", DATES)]
LAYOUTS += [("%d.%m.%Y", [".".join(reversed(text.split("-"))) for text in DATES]), ("%y-%m-%d", DATES), ("%d %b %Y", ["1 Jun 2020"])]


@pytest.mark.parametrize(("layout", "texts"), LAYOUTS, ids=lambda value: str(value)[:20])
def test_a_text_that_is_null_where_more_stands_behind_a_date__is_read_as_before(layout: str, texts: list[str]) -> None:
    rows = pl.DataFrame({"t": [*texts, *(f"on {text}." for text in texts), None]})
    text, whole = pl.col("t"), dated(pl.col("t"), layout)
    found = rows.select(whole=whole.str.to_date(layout, strict=False), own=text.str.to_date(layout, strict=False))
    assert_series_equal(found["whole"], found["own"], check_names=False)
    clocks = [one.str.to_datetime(layout, strict=False, time_unit="us") for one in (whole, text)]
    assert_series_equal(rows.select(clocks[0]).to_series(), rows.select(clocks[1]).to_series(), check_names=False)


def test_a_text_with_more_behind_its_date__is_none() -> None:
    more = ["2020-06-01x", "2020-06-01\n", "2020-06-011"]
    texts = pl.DataFrame({"t": ["2020-06-01", *more]})
    assert texts.select(dated(pl.col("t"), "%Y-%m-%d")).to_series().to_list() == ["2020-06-01", None, None, None]
    with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*a text is no date as 2020-06-01"):
        answer("cast(t as date)", texts[1:2])
