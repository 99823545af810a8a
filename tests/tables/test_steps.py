"""Trees of steps: what is run, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import pipeline.tables.steps
from pipeline.tables.part import Part
from pipeline.tables.steps import Step, evaluate

HELD = Part(pl.DataFrame({"id": [1, 2, 3]}), {"calls": np.arange(6, dtype=np.uint8).reshape(3, 2)})


class Counting:
    """A step on parts that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, part: Part) -> Part:
        self.calls += 1
        return Part(part.frame.with_columns(twice=pl.col("id") * 2), part.arrays, {"rows": part.frame.height})


def held(part: Part = HELD) -> Step:
    return Step("read", "given", source=part)


@pytest.fixture
def no_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(query: Any, _backend: Any) -> Any:
        raise AssertionError(f"a query was run: {query.explain()}")

    monkeypatch.setattr(pipeline.tables.steps, "collect", unwanted)


@pytest.mark.usefixtures("no_collect")
def test_a_held_part_and_what_a_step_on_parts_gives__are_returned_as_they_are() -> None:
    found = evaluate(held(), "cpu")
    assert found.frame is HELD.frame
    assert found.arrays["calls"] is HELD.arrays["calls"]
    made = evaluate(Step("part", "doubled", (held(),), Counting()), "cpu")
    assert made.frame["twice"].to_list() == [2, 4, 6]
    assert made.counts == {"doubled:rows": 3}


@pytest.mark.usefixtures("no_collect")
@pytest.mark.parametrize("part", [HELD, Part(HELD.frame)], ids=["with arrays", "plain"])
def test_parts_below_one_another__are_made_once_each(part: Part) -> None:
    steps = [Step("part", f"s{i}", (held(part),), Counting()) for i in range(3)]
    whole = evaluate(Step("concat", "whole", tuple(steps)), "cpu")
    assert whole.frame["twice"].to_list() == [2, 4, 6] * 3
    assert [len(array) for array in whole.arrays.values()] == [9] * len(part.arrays)
    assert whole.counts == {"s0:rows": 3, "s1:rows": 3, "s2:rows": 3}
    assert [step.function.calls for step in steps if isinstance(step.function, Counting)] == [1, 1, 1]


@pytest.mark.parametrize("part", [HELD, Part(HELD.frame)], ids=["with arrays", "plain"])
def test_a_query_below_a_part__is_run_and_its_rows_keep_their_arrays(part: Part) -> None:
    query = Step("frame", "odd", (held(part),), lambda rows: rows.filter(pl.col("id") != 2).with_columns(twice=pl.lit(0, pl.Int64)))
    other = Step("part", "doubled", (held(part),), Counting())
    whole = evaluate(Step("concat", "whole", (query, other)), "cpu")
    assert whole.frame.rows() == [(1, 0), (3, 0), (1, 2), (2, 4), (3, 6)]
    if part.arrays:
        assert whole.arrays["calls"].tolist() == [[0, 1], [4, 5], [0, 1], [2, 3], [4, 5]]
