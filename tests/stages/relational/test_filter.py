"""filter."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import ExpressionError
from pipeline.stages.relational.filter import Filter
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(Filter(where="x > 1 and lower(trim(key)) in ('a', 'b')"), {"rows": examples.MIXED}),
]

FRAME = pl.DataFrame({"a": [1, 2, 3, None], "s": ["F", "m", None, "f "]})


def test_filter__drops_rows_where_the_condition_is_false_or_null() -> None:
    assert run_stage(Filter(where="a <> 2"), {"rows": FRAME})[""]["a"].to_list() == [1, 3]
    assert run_stage(Filter(where="lower(trim(s)) = 'f'"), {"rows": FRAME})[""]["a"].to_list() == [1, None]
    assert run_stage(Filter(where="a > 5"), {"rows": FRAME}, parts=2)[""].height == 0


def test_filter__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(Filter(where="a > 1 or s is null"), {"rows": FRAME}, ["a"])


def test_filter__refuses_at_plan_time() -> None:
    with pytest.raises(ExpressionError, match=r"no column 'ab'\. Did you mean 'a'\?"):
        plan_stage(Filter(where="ab > 1"), {"rows": FRAME})
    with pytest.raises(ExpressionError, match="needs a condition"):
        plan_stage(Filter(where="a + 1"), {"rows": FRAME})
