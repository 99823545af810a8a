"""rescale."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.stages.features.rescale import Rescale
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN, numbers, train

EXAMPLES = [
    StageExample(Rescale(columns=("x", "n"), method="robust"), {"rows": examples.MIXED}),
    StageExample(Rescale(columns=("x", "n"), method="min_max", fit_where="id < 5"), {"rows": examples.MIXED}),
]
SCALERS = {"robust": "RobustScaler", "min_max": "MinMaxScaler"}


@pytest.mark.parametrize("method", SCALERS)
def test_rescale__equals_scikit_learn(method: Any) -> None:
    from sklearn import preprocessing

    found = assert_same_for_any_parts(Rescale(columns=("x", "i"), method=method, fit_where=TRAIN), {"rows": FRAME}, ["id"])
    expected = getattr(preprocessing, SCALERS[method])().fit(numbers(train(), "x", "i")).transform(numbers(FRAME, "x", "i"))
    np.testing.assert_allclose(numbers(found, "x", "i"), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", SCALERS)
def test_rescale__a_constant_becomes_zero_and_no_values_stay_missing(method: Any) -> None:
    frame = pl.DataFrame({"c": [7, None, 7], "n": pl.Series([None] * 3, dtype=pl.Int8)})
    found = run_stage(Rescale(columns=("c", "n"), method=method), {"rows": frame}, 2)
    assert found[""].to_dict(as_series=False) == {"c": [0.0, None, 0.0], "n": [None, None, None]}
    assert found["fitted"]["column"].to_list() == ["c"]


def test_rescale__fails_where_the_distance_is_beyond_floats() -> None:
    with pytest.raises(DataError, match="the distance that 'x' is divided by is beyond Float64"):
        run_stage(Rescale(columns=("x",), method="min_max"), {"rows": pl.DataFrame({"x": [-1.7e308, 1.7e308]})})


def test_rescale__refuses_text() -> None:
    with pytest.raises(StageError, match="'s' is String, and numbers are needed"):
        plan_stage(Rescale(columns=("s",), method="robust"), {"rows": pl.DataFrame({"s": ["a"]})})
