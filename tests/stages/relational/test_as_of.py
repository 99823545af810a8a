"""as_of."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational._nearest import FAR, PLACE, THERE, Search
from pipeline.stages.relational.as_of import AsOf
from pipeline.tables.part import ROW, Part
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, plan_stage, run_parts, run_stage
from tests.harness import genotypes

RANDOM = random.Random(3)
START = dt.datetime(2026, 1, 1)


def drawn(rows: int, column: str, *, missing: bool = True) -> pl.DataFrame:
    """Rows of two symbols at times that tie now and then."""
    times = [START + dt.timedelta(minutes=RANDOM.randrange(40)) for _ in range(rows)]
    return pl.DataFrame(
        {
            "symbol": [RANDOM.choice(["a", "b", None] if missing else ["a", "b"]) for _ in range(rows)],
            "time": [RANDOM.choice([time, time, time, None]) if missing else time for time in times],
            column: range(rows),
        }
    )


TRADES, QUOTES = drawn(30, "trade"), drawn(25, "quote")
TABLES = {"left": TRADES, "right": QUOTES}
NEAREST = AsOf.model_validate({"by": "symbol", "on": "time", "direction": "nearest", "tolerance": "5m"})
EXAMPLES = [
    StageExample(NEAREST, TABLES),
    StageExample(AsOf.model_validate({"by": "symbol", "on": "time", "exact": False, "how": "inner"}), TABLES),
    StageExample(AsOf.model_validate({"on": "time", "direction": "forward"}), TABLES, ordered=True),
    StageExample(NEAREST, {"left": TRADES, "right": QUOTES.clear()}),
]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_as_of__joins_the_rows_that_pandas_does(direction: Any, exact: bool) -> None:
    left, right = drawn(40, "trade", missing=False), drawn(30, "quote", missing=False).unique(["symbol", "time"], keep="first")
    stage = AsOf.model_validate({"by": "symbol", "on": "time", "direction": direction, "tolerance": "6m", "exact": exact})
    found = run_stage(stage, {"left": left, "right": right}, 3)[""]
    frames = [frame.to_pandas().sort_values("time", kind="stable") for frame in (left, right)]
    pandas = pd.merge_asof(
        *frames, on="time", by="symbol", direction=direction, tolerance=pd.Timedelta("6min"), allow_exact_matches=exact
    ).sort_values("trade")
    assert found["quote"].cast(pl.Float64).fill_null(-1).to_list() == pandas["quote"].fillna(-1).to_list()
    apart = (found["time"] - found["time_right"]).dt.total_minutes().abs().drop_nulls()
    assert (apart <= 6).all()


def test_backward__is_the_asof_join_of_duckdb() -> None:
    import duckdb

    right = QUOTES.drop_nulls().unique(["symbol", "time"], keep="first")
    left = TRADES.with_columns(pl.col("time").cast(pl.Datetime("us")))
    found = run_stage(AsOf.model_validate({"by": "symbol", "on": "time"}), {"left": left, "right": right})[""]
    connection = duckdb.connect()
    for name, table in (("l", left), ("r", right)):
        connection.register(name, table.to_arrow())
    rows = connection.sql("select trade, r.quote from l asof left join r on l.symbol = r.symbol and l.time >= r.time order by trade")
    assert found.select("trade", "quote").rows() == rows.fetchall()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("by", [("symbol",), ()])
def test_the_queries_of_a_gpu__find_what_the_join_finds(by: tuple[str, ...], direction: Any, exact: bool) -> None:
    search = Search(by, "time", direction, exact=exact, limit=4 * 60_000_000)
    left = drawn(60, "trade")
    right = drawn(50, "quote").drop_nulls().sort("time", "quote").with_columns(pl.col("time").to_physical().alias(THERE))
    asked, others = left.with_row_index(ROW).lazy(), right.with_row_index(PLACE).with_columns(pl.col(PLACE).cast(pl.Int64)).lazy()
    found = search.places(asked, others).drop_nulls().sort(ROW).collect()
    here = pl.DataFrame({PLACE: search.here(left, right)}).with_row_index(ROW).drop_nulls()
    assert found.height > 10
    assert found.select(ROW, PLACE).rows() == here.rows()
    far = {THERE: pl.col(THERE) + FAR, "time": (pl.col("time").to_physical() + FAR)}  # beyond numbers: Polars' own join
    assert search.here(left.with_columns(time=far["time"]), right.with_columns(**far)).to_list() == search.here(left, right).to_list()


def test_as_of__is_the_same_for_any_parts_and_order() -> None:
    for stage in (NEAREST, AsOf.model_validate({"on": "time"})):
        assert assert_same_for_any_parts(stage, TABLES, ["trade"]).height == TRADES.height


def test_right_rows_of_one_time__are_taken_by_their_other_columns() -> None:
    left, right = pl.DataFrame({"t": [5, 7]}), pl.DataFrame({"t": [6, 6, 6], "v": [2, None, 1]})
    assert run_stage(AsOf(on="t", direction="forward"), {"left": left, "right": right})[""]["v"].to_list() == [1, None]
    assert run_stage(AsOf(on="t", how="inner"), {"left": left, "right": right})[""].rows() == [(7, 6, None)]


def test_nearest__takes_the_earlier_of_two_equally_near_and_no_distance_that_wraps() -> None:
    left, right = pl.DataFrame({"t": [5, 2**63 - 1, -(2**63)]}), pl.DataFrame({"at": [3, 7, -(2**63) + 1], "v": [1, 2, 3]})
    stage = AsOf.model_validate({"on": {"t": "at"}, "direction": "nearest"})
    assert run_stage(stage, {"left": left, "right": right})[""]["v"].to_list() == [1, 2, 3]
    near = AsOf.model_validate({"on": {"t": "at"}, "direction": "backward", "tolerance": "9"})
    assert run_stage(near, {"left": left, "right": right.tail(1)})[""]["v"].to_list() == [None, None, None]


def test_keys_and_times__may_be_named_otherwise_on_the_right() -> None:
    right = QUOTES.rename({"symbol": "name", "time": "at"})
    stage = AsOf.model_validate({"by": {"symbol": "name"}, "on": {"time": "at"}})
    found, same = run_stage(stage, {"left": TRADES, "right": right}, 2)[""], run_stage(AsOf(by="symbol", on="time"), TABLES)[""]
    assert found.rename({"at": "time_right"}).equals(same)


def test_matched_and_lost_rows__are_counted() -> None:
    kept = run_stage(NEAREST.model_copy(update={"how": "inner"}), TABLES)[""].height
    assert counts_of(NEAREST, TABLES, 3) == {"matched": kept, "lost": TRADES.height - kept}


def test_as_of__keeps_the_calls_of_its_rows() -> None:
    table, axes = genotypes()
    right = pl.DataFrame({"chromosome": ["1", "2"], "base_pair_location": [103, 103], "gene": ["x", "y"]})
    right = right.with_columns(pl.col(name).cast(table.frame.schema[name]) for name in ("chromosome", "base_pair_location"))
    stage = AsOf(by="chromosome", on="base_pair_location", how="inner")
    (part,) = run_parts(stage, {"left": [table], "right": [Part(right)]}, axes=axes)[""]
    names = ("chromosome", "base_pair_location")
    places = [table.frame.select(names).rows().index(row) for row in part.frame.select(names).rows()]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][places])


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"on": "tim"}, "on: the table given as 'left' has no column 'tim'"),
        ({"by": "trade"}, "by: the table given as 'right' has no column 'trade'"),
        ({"on": {"time": "quote"}}, "on: 'time' is Datetime.* on the left and 'quote' is Int64 on the right"),
        ({"on": {"time": "time", "trade": "quote"}}, "on names 2 columns"),
        ({"on": "symbol"}, "on: column 'symbol' is String: times are"),
        ({"tolerance": "1mo"}, "tolerance: '1mo' is no span of 'time'"),
        ({"suffix": "_x"}, "the result would have two columns 'time_x'"),
    ],
)
def test_as_of__refuses_at_plan_time(keys: dict[str, Any], text: str) -> None:
    stage = AsOf.model_validate({"by": "symbol", "on": "time", **keys})
    with pytest.raises(StageError, match=text):
        plan_stage(stage, {"left": TRADES.with_columns(time_x=1), "right": QUOTES})
