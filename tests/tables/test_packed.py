"""The order of several columns as one number."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipeline.tables.packed import all_digits, has_values, named, numbered, packed

VALUES: dict[Any, Any] = {
    pl.String(): st.sampled_from(["", "a", "A", "aa", "ä", "b\0", "z" * 30]),
    pl.Int64(): st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 5]),
    pl.UInt64(): st.sampled_from([2**64 - 1, 2**64 - 9, 2**63]),
    pl.Int8(): st.integers(-128, 127),
    pl.Int128(): st.sampled_from([2**100, -(2**90), 3]),
    pl.Boolean(): st.booleans(),
    pl.Date(): st.sampled_from([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    pl.Datetime("us"): st.sampled_from([datetime(1900, 1, 1), datetime(2026, 11, 23, 4, 5, 6)]),
    pl.Decimal(9, 2): st.sampled_from([1, -7, 22]),
    pl.Decimal(38, 0): st.sampled_from([10**37, 10**37 - 3, -(10**37)]),
    pl.Float32(): st.sampled_from([0.25, -0.0, 0.0, -1.5, 3e38, 1e-45, math.inf]),
    pl.Float64(): st.floats(0.001, 1) | st.sampled_from([-0.0, 0.0, -1e300, 5e-324, -math.inf, math.nan]),
    pl.Enum(["late", "early"]): st.sampled_from(["late", "early"]),
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """Some columns of any types, and the number of each row, which tells where it went."""
    dtypes, height = draw(st.lists(st.sampled_from(list(VALUES)), min_size=2, max_size=4)), draw(st.integers(0, 30))
    columns = [
        pl.Series(f"c{at}", draw(st.lists(st.none() | VALUES[dtype], min_size=height, max_size=height)), dtype=dtype)
        for at, dtype in enumerate(dtypes)
    ]
    return pl.DataFrame(columns)


@settings(max_examples=100, deadline=None)
@given(frames())
def test_packed__orders_rows_as_their_columns_do(frame: pl.DataFrame) -> None:
    found = frame.lazy().sort(packed(frame.columns)).collect(engine="streaming")
    assert_frame_equal(found, frame.sort(frame.columns, nulls_last=True))


@settings(max_examples=100, deadline=None)
@given(frames())
def test_named__gives_back_what_numbers_were_made_of(frame: pl.DataFrame) -> None:
    columns = frame.get_columns()
    digits = all_digits(columns)
    if digits is not None:
        said = [column.name for column in columns if has_values(column.dtype)]
        assert_frame_equal(named(numbered(columns, digits), columns, digits), frame.select(said))


@pytest.mark.parametrize("height", [3, 40_000])
def test_packed__of_texts_that_repeat_or_not_is_their_order(height: int) -> None:
    numbers = pl.int_range(height, eager=True)
    frame = pl.DataFrame({"few": (numbers * 7 % 3).cast(pl.String), "many": (numbers * 31 % height).cast(pl.String), "n": numbers})
    for names in (["few", "n"], ["many", "n"], ["few", "many"]):
        assert_frame_equal(frame.lazy().sort(packed(names)).collect(engine="streaming"), frame.sort(names))


TOGETHER = """
import polars as pl
from concurrent.futures import ThreadPoolExecutor
from pipeline.tables.packed import packed, places

rows = pl.select(a=pl.int_range(50_000) % 7, b=(pl.int_range(50_000) * 7_919 % 5_000).cast(pl.String))
several = {name: packed(name) for name in ("a", "b", "ab")}

def asked(number):
    return rows.lazy().select(**several).filter(pl.col("a") > 2).collect(engine="streaming" if number % 2 else "in-memory")

expected = pl.DataFrame({name: places([rows[each] for each in name]) for name in several}).filter(pl.col("a") > 2)
with ThreadPoolExecutor(4) as pool:
    assert all(found.equals(expected) for found in pool.map(asked, range(8)))
print(pl.thread_pool_size())
"""


@pytest.mark.process
@pytest.mark.parametrize("threads", ["1", "2"])
def test_numbers__that_queries_ask_for_on_all_of_polars_threads_at_once_do_not_wait_for_one_another(threads: str) -> None:
    environment = {**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run([sys.executable, "-c", TOGETHER], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, threads), ended.stderr[-2000:]
