"""window."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.stages.relational._window import rolling
from pipeline.stages.relational.window import Window
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, plan_stage, run_parts, run_stage
from tests.harness import genotypes

RANDOM = random.Random(12)
ROWS = 40
FRAME = pl.DataFrame(
    {
        "sensor": [RANDOM.choice(["a", "a", "a", "b", None]) for _ in range(ROWS)],
        "time": [dt.datetime(2026, 3, 1) + dt.timedelta(minutes=15 * RANDOM.randrange(30)) for _ in range(ROWS)],
        "speed": [RANDOM.choice([None, round(RANDOM.gauss(80, 9), 1)]) for _ in range(ROWS)],
        "count": [RANDOM.randrange(50) for _ in range(ROWS)],
        "row": range(ROWS),
    }
)
FUNCTIONS = ("sum", "mean", "min", "max", "count", "std", "var", "median")
EVERYTHING: dict[str, Any] = {
    **{name: f"{name}(speed, 2)" for name in ("lag", "lead", "difference", "pct_change")},
    **{f"{name}_count": f"{name}(count)" for name in ("lag", "lead", "difference", "pct_change")},
    **{f"{name}_of": f"{name}()" for name in ("row_number", "rank", "dense_rank", "percent_rank", "size")},
    "ntile_of": "ntile(3)",
    **{f"cum_{name}_of": f"cum_{name}({of})" for name, of in (("sum", "count"), ("mean", "speed"), ("min", "time"), ("count", "speed"))},
    "cum_max_of": "cum_max(speed)",
    **{f"cum_{name}_of": f"cum_{name}(speed)" for name in ("std", "var", "median")},
    "cum_high": "cum_quantile(speed, 0.9)",
    **{f"{name}_of_group": f"{name}({of})" for name in (*FUNCTIONS, "n_unique") for of in ("speed",)},
    **{f"{name}_counts": f"{name}(count)" for name in ("sum", "mean", "share", "first", "last")},
    "low": "quantile(speed, 0.1)",
    **{f"{name}_of_rows": f"rolling_{name}(coalesce(speed, 0) * 2, 3)" for name in FUNCTIONS},
    **{f"{name}_of_hour": {"function": f"rolling_{name}", "of": "count", "span": "1h", "closed": "left"} for name in FUNCTIONS},
    "high_of_day": "rolling_quantile(speed, 1d, 0.9)",
}
STAGE = Window.model_validate({"by": "sensor", "order": "time", "compute": EVERYTHING})
ONE_GROUP = Window.model_validate({"order": ["-time", "count"], "compute": {"before": "lag(speed)", "total": "cum_sum(count)"}})
EXAMPLES = [
    StageExample(STAGE, {"rows": FRAME}),
    StageExample(STAGE, {"rows": FRAME.clear()}),
    StageExample(ONE_GROUP, {"rows": FRAME}, ordered=True),
    StageExample(Window.model_validate({"by": ["sensor", "count"], "compute": {"speed": "mean(speed)"}}), {"rows": FRAME}),
    StageExample(
        Window.model_validate({"order": "row", "ties": "refuse", "compute": {"speed": "lag(speed)", "total": "cum_sum(count * 2)"}}),
        {"rows": FRAME},
        ordered=True,
    ),
]


def found(compute: dict[str, Any], frame: pl.DataFrame = FRAME, **more: Any) -> pl.DataFrame:
    keys = {"by": "sensor", "order": "time"} | more
    return run_stage(Window.model_validate({**keys, "compute": compute}), {"rows": frame}, 2)[""]


def test_window__does_not_depend_on_parts_or_on_the_order_of_rows() -> None:
    assert assert_same_for_any_parts(STAGE, {"rows": FRAME}, ["row"]).height == ROWS


def test_window__gives_rows_in_the_order_of_groups_and_times() -> None:
    expected = FRAME.sort("sensor", "time", "speed", "count", "row", nulls_last=True)
    rows = found({"n": "row_number()"})
    assert rows.drop("n").equals(expected)
    assert rows["n"].to_list() == [place for size in expected["sensor"].rle().struct["len"] for place in range(1, size + 1)]


def test_window__keeps_the_order_of_rows_where_none_is_given() -> None:
    rows = found({"total": "sum(count)"}, order=None)
    assert rows["row"].to_list() == FRAME.sort("sensor", nulls_last=True, maintain_order=True)["row"].to_list()


def test_window__may_replace_a_column_that_others_look_at() -> None:
    one = found({"speed": "lag(speed)", "twice": "lag(speed, 2)", "time": "rank()", "hour": "rolling_count(speed, 1h)"})
    other = found({"a": "lag(speed)", "twice": "lag(speed, 2)", "b": "rank()", "hour": "rolling_count(speed, 1h)"})
    assert one.columns == [*FRAME.columns, "twice", "hour"]
    assert one.select("speed", "twice", "time", "hour").equals(other.select("a", "twice", "b", "hour").rename({"a": "speed", "b": "time"}))


def test_what_rolls__is_the_same_in_stretches_of_whole_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_stage(STAGE, {"rows": FRAME})[""]
    monkeypatch.setattr(rolling, "STRETCH_ROWS", 3)
    assert_frame_equal(run_stage(STAGE, {"rows": FRAME})[""], whole, check_exact=True)
    rows = pl.DataFrame({"k": [key for key in range(50) for _ in range(1 + key % 7)]}).with_columns(
        t=pl.int_range(pl.len()), x=pl.int_range(pl.len()) * 7 % 11
    )
    sums = found({"sum": "rolling_sum(x, 3)", "n": "rolling_count(x, 3)"}, rows, by="k", order="t")
    expected = rows.to_pandas().groupby("k")["x"].rolling(3, min_periods=1)
    assert sums["sum"].to_list() == expected.sum().tolist()
    assert sums["n"].to_list() == expected.count().tolist()


def test_a_rolling_sum__knows_nothing_of_what_has_left_it() -> None:
    frame = pl.DataFrame({"t": range(6), "x": [1e300, 1.0, 2.0, 3.0, None, 0.1]})
    rows = found({"sum": "rolling_sum(x, 2)", "std": "rolling_std(x, 2)"}, frame, by=[], order="t")
    assert rows["sum"].to_list() == [1e300, 1e300, 3.0, 5.0, 3.0, 0.1]
    assert rows["std"].to_list()[2:] == [0.5**0.5, 0.5**0.5, None, None]


@pytest.mark.parametrize(
    ("closed", "rows", "span"),
    [
        ("right", [1, 3, 6, 9, 12], [3, 3, 6, 7, 9]),
        ("left", [0, 1, 3, 6, 9], [0, 0, 3, 6, 7]),
        ("both", [1, 3, 6, 10, 14], [3, 3, 6, 10, 12]),
        ("none", [0, 1, 3, 5, 7], [0, 0, 3, 3, 4]),
    ],
)
def test_closed__says_which_ends_are_in_the_window(closed: str, rows: list[int], span: list[int]) -> None:
    frame = pl.DataFrame({"t": [1, 1, 2, 3, 4], "x": [1, 2, 3, 4, 5]})
    more = {"function": "rolling_sum", "of": "coalesce(x, 0)", "closed": closed}
    given = found({"rows": {**more, "rows": 3}, "span": {**more, "span": "2"}}, frame, by=[], order="t").fill_null(0)
    assert given["rows"].to_list() == rows
    assert given["span"].to_list() == span


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 50])
def test_center__has_the_row_in_the_midst_as_pandas_does(rows: int) -> None:
    frame = pl.DataFrame({"t": range(20), "x": [float(i * i % 7) for i in range(20)]})
    stage = {"function": "rolling_sum", "of": "x", "rows": rows, "center": True}
    expected = frame.to_pandas()["x"].rolling(rows, center=True, min_periods=1).sum()
    assert found({"y": stage}, frame, by=[], order="t")["y"].to_list() == expected.to_list()


def test_a_difference__is_of_times_too_and_of_no_group_before() -> None:
    rows = found({"since": "difference(time)"})
    assert rows["since"].dtype == pl.Duration("us")
    assert rows["since"].null_count() == FRAME["sensor"].n_unique()


LARGE = pl.DataFrame({"k": ["a", "b", "b"], "t": [1, 1, 2], "x": [5, 2**63 - 1, 2], "u": pl.Series([1, 7, 2], dtype=pl.UInt64)})


@pytest.mark.parametrize(
    ("compute", "text"),
    [
        ("sum(x)", r"a result beyond Int64 of sum\(x\)"),
        ("cum_sum(x)", r"a result beyond Int64 of cum_sum\(x\)"),
        ("rolling_sum(x, 2)", "a sum of x is beyond Int64 where k is 'b', t is 2"),
        ("difference(-x - 1)", ""),
        ("difference(u)", r"a negative result of difference\(u\)"),
    ],
)
def test_what_no_type_holds__fails_the_run(compute: str, text: str) -> None:
    stage = Window.model_validate({"by": "k", "order": "t", "compute": {"y": compute}})
    if not text:
        assert run_stage(stage, {"rows": LARGE})[""]["y"].to_list() == [None, None, 2**63 - 3]
        return
    with pytest.raises(DataError, match=rf"stage tested\.compute\.y: {text}"):
        run_stage(stage, {"rows": LARGE}, 2)


def test_infinities__are_null_and_counted() -> None:
    frame = pl.DataFrame({"k": [1, 1, 1], "t": [1, 2, 3], "x": [1e308, 1e308, 1e-308]})
    compute = {"sum": "cum_sum(x)", "rolling": "rolling_sum(x, 2)", "change": "pct_change(x)", "share": "share(x)"}
    stage = Window.model_validate({"by": "k", "order": "t", "compute": compute})
    rows = run_stage(stage, {"rows": frame})[""]
    assert rows.select("sum", "rolling", "change").rows() == [(1e308, 1e308, None), (None, None, 0.0), (None, 1e308, -1.0)]
    assert rows["share"].to_list() == [None, None, None]  # of a sum that is beyond floats; it was 0
    assert counts_of(stage, {"rows": frame}) == {"infinities": 6}


def test_ties__are_refused_where_asked_with_their_row() -> None:
    frame = pl.DataFrame({"k": ["a", "b", "a"], "t": [1, 1, 1]})
    assert found({"n": "row_number()"}, frame[:2], by="k", order="t", ties="refuse")["n"].to_list() == [1, 1]
    with pytest.raises(DataError, match="ties: rows of a group tie in 't', first in row 3 of its part, where k is 'a', t is 1"):
        found({"n": "row_number()"}, frame, by="k", order="t", ties="refuse")


def test_window__keeps_the_calls_of_its_rows() -> None:
    table, axes = genotypes()
    stage = Window.model_validate(
        {"by": "chromosome", "order": "-base_pair_location", "compute": {"n": "row_number()", "last": "rolling_max(base_pair_location, 2)"}}
    )
    (part,) = run_parts(stage, {"rows": [table]}, axes=axes)[""]
    places = [table.frame["base_pair_location"].to_list().index(place) for place in part.frame["base_pair_location"]]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][places])


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"compute": {"x": "lag(sped)"}}, r"compute\.x: .*no column 'sped'.*speed"),
        ({"compute": {"sensor": "lag(speed)"}}, "compute names 'sensor', which is a key"),
        ({"order": None, "compute": {"x": "lag(speed)"}}, r"compute\.x: lag needs `order`"),
        ({"order": "-time", "compute": {"x": "rolling_sum(speed, 1h)"}}, "a span needs an order of one column, from low to high"),
        ({"compute": {"x": "rolling_sum(speed, 1mo)"}}, r"compute\.x\.span: '1mo' is no span of 'time'"),
        ({"order": "speed", "compute": {"x": "rolling_sum(speed, 1h)"}}, "column 'speed' is Float64: times are"),
        ({"compute": {"x": "mean(sensor)"}}, r"compute\.x: mean\(sensor\) needs numbers, and that is String"),
        ({"by": "speed", "compute": {"x": "size()"}}, "a fraction is no key"),
    ],
)
def test_window__refuses_at_plan_time(keys: dict[str, Any], text: str) -> None:
    stage = Window.model_validate({"by": "sensor", "order": "time", **keys})
    with pytest.raises(StageError, match=text):
        plan_stage(stage, {"rows": FRAME})


@pytest.mark.parametrize(
    ("compute", "text"),
    [
        ("speed", "is not function"),
        ("lagg(speed)", r"'lagg\(speed\)': there is no function 'lagg'\. Did you mean 'lag'\?"),
        ({"function": "lagg", "of": "speed"}, "Input should be 'lag'"),
        ("lag()", "lag needs `of`"),
        ("rank(speed)", "rank takes nothing"),
        ("lag(speed, 1, 2)", "lag takes of, rows, and here are 3"),
        ("lag(speed, x)", "valid integer"),
        ("rolling_mean(speed)", "rolling_mean needs a window"),
        ("rolling_quantile(speed, 3)", "rolling_quantile needs quantile"),
        ({"function": "lag", "of": "speed", "span": "1h"}, "span, closed, center and min_values are of rolling windows"),
        ("ntile()", "ntile needs buckets"),
    ],
)
def test_a_function__that_is_written_wrong_is_refused(compute: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Window.model_validate({"order": "time", "compute": {"x": compute}})


def test_a_rolling_sum_of_long_decimals__is_refused() -> None:
    frame = pl.DataFrame({"t": [1], "x": pl.Series(["1.0"]).cast(pl.Decimal(30, 2))})
    with pytest.raises(StageError, match=r"a rolling sum of Decimal.* may have more than 38 digits"):
        plan_stage(Window.model_validate({"order": "t", "compute": {"y": "rolling_sum(x, 2)"}}), {"rows": frame})
