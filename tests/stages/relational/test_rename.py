"""rename."""

from __future__ import annotations

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.relational.rename import Rename
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(Rename(columns={"x": "y", "id": "x"}), {"rows": examples.MIXED}),
]

FRAME = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None], "c": [0.5, None, 2.5]})


def test_rename__swaps_names_and_keeps_the_order() -> None:
    renamed = run_stage(Rename(columns={"a": "b", "b": "a"}), {"rows": FRAME})[""]
    assert renamed.to_dict(as_series=False) == {"b": [1, 2, 3], "a": ["x", "y", None], "c": [0.5, None, 2.5]}


def test_rename__is_the_same_for_any_parts() -> None:
    assert_same_for_any_parts(Rename(columns={"a": "z"}), {"rows": FRAME}, ["z"])


def test_rename__refuses_a_clash_and_an_unknown_column() -> None:
    with pytest.raises(StageError, match="two columns would be named 'c'"):
        plan_stage(Rename(columns={"a": "c"}), {"rows": FRAME})
    with pytest.raises(StageError, match="no column 'q'"):
        plan_stage(Rename(columns={"q": "c"}), {"rows": FRAME})
