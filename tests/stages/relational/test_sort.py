"""sort."""

from __future__ import annotations

import random

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational.sort import Sort
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(Sort(by=["-x", "key"]), {"rows": examples.MIXED}, ordered=True),
    StageExample(Sort(by=["key", "-id"], limit=3), {"rows": examples.MIXED}, ordered=True),
]

RANDOM = random.Random(5)
FRAME = pl.DataFrame({"g": [RANDOM.choice([1, 2, 3, None]) for _ in range(60)], "x": [RANDOM.random() for _ in range(60)], "id": range(60)})


def expected(limit: int | None) -> list[tuple[object, ...]]:
    rows = sorted(FRAME.rows(), key=lambda row: (row[0] is None, -(row[0] or 0), row[1]))
    return rows[:limit]


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("limit", [None, 1, 7, 50, 500])
def test_sort__equals_python_with_nulls_last(parts: int, limit: int | None) -> None:
    assert run_stage(Sort(by=("-g", "x"), limit=limit), {"rows": FRAME}, parts)[""].rows() == expected(limit)


@pytest.mark.parametrize("limit", [None, 20])
def test_sort__keeps_the_order_of_ties(limit: int | None) -> None:
    rows = run_stage(Sort(by=("g",), limit=limit), {"rows": FRAME}, 7)[""].rows()
    assert rows == sorted(FRAME.rows(), key=lambda row: (row[0] is None, row[0] or 0))[:limit]


def test_sort__over_workers_is_the_same(workers: ClusterSession) -> None:
    assert run_stage(Sort(by=("-g", "x"), limit=9), {"rows": FRAME}, 4, workers)[""].rows() == expected(9)


def test_sort__refuses_an_unknown_column() -> None:
    with pytest.raises(StageError, match="no column 'y'"):
        plan_stage(Sort(by=("-y",)), {"rows": FRAME})
