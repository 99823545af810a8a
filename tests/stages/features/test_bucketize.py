"""bucketize."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.features.bucketize import Bucketize
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN, numbers, train

EXAMPLES = [
    StageExample(Bucketize(columns=("x", "n"), buckets=3, fit_where="id < 6"), {"rows": examples.MIXED}),
    StageExample(Bucketize(columns=("x",), edges={"x": (1, 2.5)}), {"rows": examples.MIXED}, ordered=True),
]


def test_bucketize__by_quantiles_equals_scikit_learn() -> None:
    from sklearn.preprocessing import KBinsDiscretizer

    found = assert_same_for_any_parts(Bucketize(columns=("x",), buckets=7, fit_where=TRAIN), {"rows": FRAME}, ["id"])
    known = FRAME["x"].is_not_null()
    bins = KBinsDiscretizer(7, encode="ordinal", strategy="quantile", quantile_method="linear", subsample=None)
    bins.fit(numbers(train().drop_nulls("x"), "x"))
    expected = bins.transform(numbers(FRAME.filter(known), "x"))[:, 0]
    apart = np.abs(numbers(FRAME.filter(known), "x") - np.asarray(bins.bin_edges_[0])).min(axis=1) > 1e-9  # it rounds its edges
    assert apart.sum() > 50
    assert found.filter(known)["x"].to_numpy()[apart].tolist() == expected[apart].astype(int).tolist()
    assert found.filter(~known)["x"].null_count() == (~known).sum()


def test_bucketize__equal_quantiles_are_one_edge() -> None:
    frame = pl.DataFrame({"x": [1, 1, 1, 1, 1, 2, 9]})
    found = run_stage(Bucketize(columns=("x",), buckets=4), {"rows": frame}, 3)
    assert found["fitted"].rows() == [("x", 1, 1.0), ("x", 3, 1.5)]
    assert found[""]["x"].to_list() == [1, 1, 1, 1, 1, 2, 2]


def test_bucketize__an_edge_belongs_to_the_bucket_above_as_in_numpy() -> None:
    values, edges = [-5.0, 10.0, 15.0, 20.0, 25.0], (10.0, 20.0)
    found = run_stage(Bucketize(columns=("x",), edges={"x": edges}), {"rows": pl.DataFrame({"x": [*values, None]})}, 2)[""]
    assert found["x"].to_list() == [*np.digitize(values, edges).tolist(), None]


def test_bucketize__of_a_column_without_values_leaves_it_missing() -> None:
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Float32)})
    assert run_stage(Bucketize(columns=("x",), buckets=3), {"rows": frame})[""]["x"].to_list() == [None, None]


def test_bucketize__refuses_what_does_not_fit() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "give either buckets"),
        ({"buckets": 3, "edges": {"x": [1]}}, "give either buckets"),
        ({"edges": {"z": [1]}}, "edges has 'z', which columns does not name"),
        ({"edges": {"x": [2, 1]}}, "must rise"),
        ({"edges": {"x": [1]}, "fit_where": "i > 0"}, "leave out fit_where"),
    ]
    for given, message in wrong:
        with pytest.raises(ValidationError, match=message):
            Bucketize.model_validate({"columns": ["x", "i"], **given})
    with pytest.raises(StageError, match="column 'i' has no edges"):
        plan_stage(Bucketize.model_validate({"columns": ["x", "i"], "edges": {"x": [1]}}), {"rows": FRAME})
