"""drop_duplicates."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational.drop_duplicates import DropDuplicates
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_parts, run_stage
from tests import example_tables as examples
from tests.harness import genotypes

EXAMPLES = [
    StageExample(DropDuplicates(columns=["key"], order_by=["-n"]), {"rows": examples.MIXED}),
]

RANDOM = random.Random(6)
FRAME = pl.DataFrame(
    {
        "k": [RANDOM.choice([1, 2, 3, None]) for _ in range(50)],
        "t": [RANDOM.randrange(3) for _ in range(50)],
        "v": [RANDOM.choice("abc") for _ in range(50)],
    }
)


def test_drop_duplicates__keeps_the_first_by_order_then_by_the_other_columns() -> None:
    found = assert_same_for_any_parts(DropDuplicates(columns=("k",), order_by=("-t",)), {"rows": FRAME}, ["k"])
    pandas = FRAME.to_pandas().sort_values(["t", "v"], ascending=[False, True]).drop_duplicates("k").sort_values("k")
    assert found.select("t", "v").rows() == list(zip(pandas["t"], pandas["v"], strict=True))


def test_drop_duplicates__without_an_order_does_not_depend_on_the_rows_order() -> None:
    found = assert_same_for_any_parts(DropDuplicates(columns=("k", "t")), {"rows": FRAME}, ["k", "t"])
    assert found.rows() == sorted(
        {(k, t): min(row for row in FRAME.rows() if row[:2] == (k, t)) for k, t, _ in FRAME.rows()}.values(),
        key=lambda row: (row[0] is None, row[0] or 0, row[1]),
    )


def test_drop_duplicates__over_workers_is_the_same(workers: ClusterSession) -> None:
    stage = DropDuplicates(columns=("k",), order_by=("-t",))
    assert run_stage(stage, {"rows": FRAME}, 4, workers)[""].sort("k").equals(run_stage(stage, {"rows": FRAME})[""].sort("k"))


def test_drop_duplicates__keeps_the_calls_of_its_rows() -> None:
    table, axes = genotypes()
    (part,) = run_parts(DropDuplicates(columns=("chromosome",), order_by=("-base_pair_location",)), {"rows": [table]}, axes=axes)[""]
    assert part.frame["base_pair_location"].to_list() == [106, 108]
    np.testing.assert_array_equal(part.arrays["calls"], table.arrays["calls"][[6, 8]])


def test_drop_duplicates__refuses_float_keys_and_unknown_columns() -> None:
    with pytest.raises(StageError, match="a fraction is no key"):
        plan_stage(DropDuplicates(columns=("x",)), {"rows": pl.DataFrame({"x": [0.5]})})
    with pytest.raises(StageError, match="no column 'z'"):
        plan_stage(DropDuplicates(columns=("k",), order_by=("-z",)), {"rows": FRAME})
