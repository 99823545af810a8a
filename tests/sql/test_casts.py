"""Casts within an expression: what DuckDB answers, or an error with the row; `try_cast` is null where `cast` fails."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages.relational.derive import Derive
from pipeline.stages.relational.filter import Filter
from pipeline.testing.stages import run_stage
from tests.sql.expression_page import derived

INTEGERS = ["tinyint", "smallint", "int", "bigint"]
FRACTIONS = ["real", "double", "decimal(5, 0)", "decimal(7, 2)", "decimal(38, 0)", "decimal(38, 3)"]
TARGETS = {name: name for name in (*INTEGERS, *FRACTIONS)} | {f"{name} unsigned": f"u{name.replace('int', 'integer')}" for name in ["int"]}
TARGETS |= {f"{name} unsigned": f"u{name}" for name in ("tinyint", "smallint", "bigint")}
SOURCES: list[Any] = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64, pl.String]
SOURCES += [pl.Decimal(5, 2), pl.Decimal(38, 0), pl.Decimal(20, 3)]
BITS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)
WHOLE = [0, 1, -1, 77, 99_999, 100_000, *(sign * 2**bits + step for bits in BITS for sign in (1, -1) for step in (-1, 0, 1))]
PARTS = ["0.3", "2.7", "-2.7", "0.015", "99999.6", "127.4", "127.6", "-128.6", "255.7"]
FLOATS = [1e300, -1e300, 3e38, 4e38, 0.5, 1.5, 2.5, None]


def given(dtype: Any) -> pl.DataFrame:
    """Numbers around every end of a type, with fractions where the type has some."""
    has_fractions = not dtype.is_integer() and dtype != pl.String
    numbers = pl.Series("x", [*map(str, WHOLE), *(PARTS if has_fractions else [])])
    cast = numbers.cast(pl.Float64).cast(dtype) if dtype.is_float() else numbers.cast(dtype, strict=False).drop_nulls()
    return pl.concat([cast, pl.Series("x", FLOATS if dtype == pl.Float64 else [None], dtype=dtype)]).to_frame()


def by_duckdb(frame: pl.DataFrame, expression: str) -> list[Any]:
    return [value for (value,) in duckdb.connect().from_arrow(frame.to_arrow()).project(expression).fetchall()]


def is_same(value: Any, ours: Any, theirs: Any) -> bool:
    """Alike, but for a half, which goes to the even digit, and floats, of which decimals of many digits give one nearby."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=3e-16) or (isinstance(value, Decimal) and np.float32(float(value)) == np.float32(ours))
    return bool(ours == theirs) or Decimal(value) == (Decimal(ours) + Decimal(theirs)) / 2


@pytest.mark.parametrize(("source", "target"), list(product(SOURCES, TARGETS)), ids=str)
def test_casts_of_numbers__are_those_of_duckdb_and_fail_where_a_value_does_not_fit(source: Any, target: str) -> None:
    frame = given(source)
    expected = by_duckdb(frame, f"try_cast(x as {TARGETS[target]})")
    found = derived(f"try_cast(x as {target})", frame).to_list()
    for value, ours, theirs in zip(frame["x"], found, expected, strict=True):
        assert is_same(value, ours, theirs), (value, ours, theirs)
    lost = frame["x"].is_not_null() & pl.Series([value is None for value in found])
    assert derived(f"cast(x as {target})", frame.filter(~lost)).drop_nulls().to_list() == [value for value in found if value is not None]
    for row in frame.filter(lost).iter_slices(1):
        with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*cast to .*: a value does not fit"):
            derived(f"x::{target}", row)


def test_timestamps_and_intervals__are_numbers_of_microseconds_of_every_type() -> None:
    frame = pl.DataFrame({"us": [dt.datetime(2020, 1, 1, 10), None], "us2": [dt.datetime(2020, 1, 1), None]})
    frame = frame.with_columns(ms=pl.col("us").cast(pl.Datetime("ms")), ns=pl.col("us").cast(pl.Datetime("ns")))
    for column, to in product(("us", "ms", "ns"), ("bigint", "double", "decimal(38, 0)", "bigint unsigned")):
        assert derived(f"cast({column} as {to})", frame).to_list() == [1_577_872_800_000_000, None]
        assert derived(f"cast(cast({column} as timestamp) - us2 as {to})", frame).to_list() == [36_000_000_000, None]
        assert derived(f"try_cast({column} as int)", frame).to_list() == [None, None]
    assert derived("cast(cast(us as date) as double)", frame).to_list() == [18_262.0, None]


def test_categories__are_cast_as_their_text() -> None:
    frame = pl.DataFrame({"x": ["7", "07", "x", None]}).select(pl.col("x").cast(pl.Categorical))
    assert derived("try_cast(x as int)", frame).to_list() == [7, 7, None, None]


DAYS = [0, -1, 18_000, 2_932_896, 2_932_897, -719_162, -719_163, 99_999_999, None]


@pytest.mark.parametrize(("type_", "factor"), [("date", 1), ("timestamp", 86_400_000_000)])
def test_whole_numbers__beyond_the_years_1_to_9999_are_no_dates(type_: str, factor: int) -> None:
    frame = pl.DataFrame({"x": [None if day is None else day * factor for day in DAYS]})
    found = derived(f"try_cast(x as {type_})", frame).to_list()
    start = dt.datetime(1970, 1, 1)
    fits = [day is not None and -719_162 <= day <= 2_932_896 for day in DAYS]
    expected = [start + dt.timedelta(days=day or 0) if fit else None for day, fit in zip(DAYS, fits, strict=True)]
    assert [value and dt.datetime(value.year, value.month, value.day) for value in found] == expected
    for row in frame.filter(~pl.Series(fits)).drop_nulls().iter_slices(1):
        with pytest.raises(pl.exceptions.InvalidOperationError, match=r"check failed: .*cast to Date"):
            derived(f"cast(x as {type_})", row)
    with pytest.raises(ExpressionError, match=r"it fails in every row: cast to Date.*try_cast makes it null"):
        check_value(f"cast({99_999_999 * factor} as {type_})", pl.Schema())


def test_nanoseconds__are_not_cut() -> None:
    frame = pl.DataFrame({"n": pl.Series([5_000, 5_001, None], dtype=pl.Datetime("ns"))})
    for to in ("timestamp", "bigint"):
        assert derived(f"try_cast(n as {to})", frame).is_null().to_list() == [False, True, True]
        with pytest.raises(DataError, match=r"a value does not fit, first in row 2 of its part, where n is 1970-01-01 00:00:00\.000005001"):
            run_stage(Derive(columns={"z": f"cast(n as {to})"}), {"rows": frame})


def test_epoch__of_a_date_counts_seconds() -> None:
    frame = pl.DataFrame({"d": [dt.date(1969, 12, 31), dt.date(2020, 6, 1), dt.date(9999, 12, 31), None]})
    assert derived("date_part('epoch', d)", frame).to_list() == by_duckdb(frame, "date_part('epoch', d)")
    moments = frame.select(s=pl.col("d").cast(pl.Datetime("us")) + pl.duration(milliseconds=86_399_250))
    assert derived("date_part('epoch', s)", moments).to_list() == by_duckdb(moments, "date_part('epoch', s)")


ROWS = pl.DataFrame({"t": ["1", "two", "3", None], "x": [5, 300, -7, None], "y": [2, 0, 4, 1]})
TAKEN = {
    "case when x < 100 then cast(x as tinyint) end": [5, None, -7, None],
    "case when x >= 100 then 0 else cast(x as tinyint) end": [5, 0, -7, None],
    "if(t ~ '^[0-9]+$', cast(t as int), -1)": [1, -1, 3, -1],
    "case when t = 'two' then 2 when x < 100 then cast(t as int) end": [1, 2, 3, None],
    "case t when 'two' then 2 else t::int end": [1, 2, 3, None],
    "t ~ '^[0-9]+$' and cast(t as int) > 1": [False, False, True, None],
    "t = 'two' or cast(t as int) > 1": [False, True, True, None],
    "coalesce(try_cast(t as int), cast(x as int))": [1, 300, 3, None],
    "coalesce(case when t = 'two' then 2 end, cast(t as int))": [1, 2, 3, None],
    "case when x < 100 then x * 9223372036854775807 // 9223372036854775807 else 1 end": None,
    "case when y = 4 then case when x < 0 then x::tinyint else (x + 293)::tinyint end else 1 end": [1, 1, -7, 1],
    "case when x = 300 then x * 9000000000000000000 when x = 5 then x else 1 end": None,
    "case when y < 2 then 1 else abs(-9223372036854775807 - case when y = 2 then 0 else y end) end": None,
    "case when y < 3 then 9223372036854775805 + y else 0 end": [2**63 - 1, 2**63 - 3, 0, 2**63 - 2],
}


@pytest.mark.parametrize("text", TAKEN)
def test_a_branch_that_a_row_does_not_take__does_not_fail_it(text: str) -> None:
    if TAKEN[text] is None:
        with pytest.raises(pl.exceptions.InvalidOperationError, match="check failed"):
            derived(text, ROWS)
    else:
        assert derived(text, ROWS).to_list() == TAKEN[text]


FAILS = {
    "cast(t as int)": r"cast to Int32: a value does not fit, first in row 2 of its part, where t is 'two'\. try_cast makes it null\.",
    "x * 4611686018427387904": r"`\*` is beyond Int64, first in row 1 of its part, where x is 5\. Cast to double first",
    "case when t is null then x else x::tinyint end": "first in row 2 of its part, where t is 'two', x is 300",
    "date(t)": "a text is no date as 2020-06-01, first in row 1 of its part, where t is '1'",
    "strptime(t, '%Y')": "a text is no timestamp as %Y, first in row 1",
}


@pytest.mark.parametrize("text", FAILS)
def test_a_value_that_is_lost__is_named_with_its_row(text: str) -> None:
    with pytest.raises(DataError, match=FAILS[text]) as caught:
        run_stage(Derive(columns={"z": text}), {"rows": ROWS})
    assert "\n" not in str(caught.value)


def test_a_check_of_a_filter__is_named_too() -> None:
    many = pl.concat([pl.DataFrame({"x": range(100_000)}), pl.DataFrame({"x": [2**62, 2**62]})])
    with pytest.raises(DataError, match=r"stage tested: .*first in row 100,001 of its part, where x is 4611686018427387904"):
        run_stage(Filter(where="x * 4 > 0"), {"rows": many})
    with pytest.raises(DataError, match=r"first in row 50,000 of its part"):
        run_stage(Filter(where="x * 4 > 0"), {"rows": many}, 2)


def test_sums_of_decimals__of_more_than_38_digits_fail_by_name() -> None:
    wide = pl.DataFrame({"a": ["9" * 37, "1"], "b": ["9" * 38, "2"]}).select(pl.all().cast(pl.Decimal(38, 0)))
    assert derived("a + a", wide).to_list() == [Decimal("1" + "9" * 36 + "8"), 2]
    assert derived("case when a > 5 then 0 else b + b end", wide).to_list() == [0, 4]
    for text in ("b + b", "-b - b", "b + cast(1 as decimal(38, 2))"):
        with pytest.raises(DataError, match=r"the result of `[+-]` is beyond 38 digits, first in row 1 of its part, where b is 9{38}"):
            run_stage(Derive(columns={"z": text}), {"rows": wide})
