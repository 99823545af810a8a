"""clip."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.features.clip import Clip
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN, numbers, train

EXAMPLES = [
    StageExample(Clip(columns=("x", "n"), min=2, max=4), {"rows": examples.MIXED}, ordered=True),
    StageExample(Clip(columns=("x", "n"), quantiles=(0.1, 0.8), fit_where="id < 6"), {"rows": examples.MIXED}),
]


def test_clip__by_quantiles_equals_numpy() -> None:
    found = assert_same_for_any_parts(Clip(columns=("x", "i"), quantiles=(0.1, 0.9), fit_where=TRAIN), {"rows": FRAME}, ["id"])
    low, high = np.nanquantile(numbers(train(), "x", "i"), [0.1, 0.9], axis=0)
    np.testing.assert_allclose(numbers(found, "x", "i"), np.clip(numbers(FRAME, "x", "i"), low, high), rtol=1e-12)


def test_clip__by_bounds_keeps_types_and_missing_values() -> None:
    frame = pl.DataFrame({"n": pl.Series([1, None, 300], dtype=pl.Int16), "x": [-1.5, 0.5, None]})
    found = run_stage(Clip(columns=("n", "x"), min=0, max=200), {"rows": frame}, 2)
    assert found[""].equals(pl.DataFrame({"n": pl.Series([1, None, 200], dtype=pl.Int16), "x": [0.0, 0.5, None]}))
    assert found["fitted"].height == 0


def test_clip__of_a_column_without_values_leaves_it_missing() -> None:
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Int8)})
    assert run_stage(Clip(columns=("x",), quantiles=(0, 1)), {"rows": frame})[""]["x"].to_list() == [None, None]


def test_clip__refuses_what_does_not_fit() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "give bounds"),
        ({"min": 1, "quantiles": [0, 1]}, "give bounds"),
        ({"min": 2, "max": 1}, "the lesser one first"),
        ({"min": 2, "fit_where": "i > 0"}, "leave out fit_where"),
    ]
    for given, message in wrong:
        with pytest.raises(ValidationError, match=message):
            Clip.model_validate({"columns": "i", **given})
    for given in ({"max": 2.5}, {"max": 10**30}):
        with pytest.raises(StageError, match=r"column 'i' is Int64, which .* is no value of"):
            plan_stage(Clip.model_validate({"columns": "i", **given}), {"rows": FRAME})
