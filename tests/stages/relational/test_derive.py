"""derive."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import ExpressionError
from pipeline.stages.relational.derive import Derive
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

COMPUTED = {"r": "x / n", "c": "case when r > 1 then 1 else 0 end", "s": "coalesce(text, 'none')"}
EXAMPLES = [
    StageExample(Derive(columns=COMPUTED), {"rows": examples.MIXED}),
]

FRAME = pl.DataFrame({"a": [6, 3, None], "b": [2.0, 0.0, 1.0], "n": pl.Series([1, 2, 3], dtype=pl.Int32)})


def test_derive__later_columns_see_earlier_ones() -> None:
    stage = Derive(columns={"ratio": "a / b", "double": "ratio * 2", "a": "a + 1", "after": "a"})
    found = run_stage(stage, {"rows": FRAME})[""]
    assert found.columns == ["a", "b", "n", "ratio", "double", "after"]
    assert found["ratio"].to_list() == [3.0, None, None]  # 3 / 0 and null / 1
    assert found["double"].to_list() == [6.0, None, None]
    assert found["a"].to_list() == found["after"].to_list() == [7, 4, None]


def test_derive__gives_whole_numbers_as_int64() -> None:
    found = run_stage(Derive(columns={"flag": "case when n > 1 then 1 else 0 end", "one": "1", "more": "n + 1"}), {"rows": FRAME})[""]
    assert [found.schema[name] for name in ("flag", "one", "more")] == [pl.Int64()] * 3
    assert found["flag"].to_list() == [0, 1, 1]
    assert found["one"].to_list() == [1, 1, 1]


def test_derive__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(Derive(columns={"c": "a / b", "one": "1"}), {"rows": FRAME}, ["n"])


def test_derive__names_the_column_whose_expression_is_wrong() -> None:
    with pytest.raises(ExpressionError, match=r"columns\.y: there is no column 'xx'"):
        plan_stage(Derive(columns={"x": "a", "y": "xx + 1"}), {"rows": FRAME})
    with pytest.raises(ExpressionError, match=r"columns.m: .*other rows"):
        plan_stage(Derive(columns={"m": "max(a)"}), {"rows": FRAME})
