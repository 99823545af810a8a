"""Functions that look at other rows: refused with the stage window, written so that it is the same."""

from __future__ import annotations

import re

import duckdb
import polars as pl
import pytest
from ruamel.yaml import YAML

from pipeline.errors import ExpressionError
from pipeline.sql.expression import check_value
from pipeline.stages.relational.window import Window
from pipeline.testing.stages import run_stage

ROWS = pl.DataFrame({"k": ["a", "b", "a", "a", "b"], "d": [1, 5, 2, 4, 3], "x": [1.0, 2.0, 4.0, None, 16.0]})
SAME = [
    "lag(x) over (partition by k order by d)",
    "lead(x, 2) OVER (PARTITION BY k ORDER BY d DESC)",
    "lag(d) over (order by d)",
    "sum(x) over (partition by k)",
    "sum(x) over (partition by k order by d)",
    "avg(x) over (partition by k order by d rows between 1 preceding and current row)",
    "row_number() over (partition by k order by d)",
    "rank() over (order by k)",
    "count(*) over (partition by k)",
    'max("x") over (partition by "k")',
    "first_value(d) over (partition by k order by d desc)",
]


def refusal(text: str) -> str:
    with pytest.raises(ExpressionError, match="stage window, as in") as caught:
        check_value(text, ROWS.schema)
    return str(caught.value)


@pytest.mark.parametrize("text", SAME)
def test_a_window__is_refused_with_the_stage_that_gives_the_same(text: str) -> None:
    (written,) = re.findall(r"as in ({.*})$", refusal(text))
    parameters = YAML(typ="safe", pure=True).load(written)
    assert parameters.pop("use") == "window"
    (found,) = run_stage(Window.model_validate(parameters), {"rows": ROWS}).values()
    expected = duckdb.from_arrow(ROWS.to_arrow()).project(f"k, d, {text} as answer").fetchall()
    assert sorted(found.select("k", "d", "NAME").rows()) == sorted(expected)


@pytest.mark.parametrize("text", ["lag(x)", "1 + rank()", "ntile(4)", "lead(x + 1) over w", "lag(x) over (order by d + 1)"])
def test_a_window_that_cannot_be_told__is_refused_with_an_example(text: str) -> None:
    (written,) = re.findall(r"as in ({.*})$", refusal(text))
    parameters = YAML(typ="safe", pure=True).load(written)
    del parameters["use"]
    assert Window.model_validate(parameters).by == ("key",)


def test_a_text_that_says_over__is_no_window() -> None:
    assert check_value("x > 1 and 'lag(x) over (order by d)' = k", ROWS.schema)[1] == pl.Boolean
