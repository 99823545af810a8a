"""categorify."""

from __future__ import annotations

import random

import polars as pl
import pytest

from pipeline.errors import StageError
from pipeline.stages.features.categorify import Categorify
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

EXAMPLES = [
    StageExample(Categorify(columns=["key", "n", "flag"], min_count=1), {"rows": examples.MIXED}),
    StageExample(Categorify(columns=["key", "n"], min_count=2, rare="bucket", fit_where="id < 6"), {"rows": examples.MIXED}, ordered=True),
]

RANDOM = random.Random(10)
FRAME = pl.DataFrame(
    {
        "id": range(90),
        "s": [RANDOM.choice([None, "", "a", "B", "é", "zz"]) for _ in range(90)],
        "i": [RANDOM.choice([None, 2, 10, -1]) for _ in range(90)],
        "b": [RANDOM.choice([True, False]) for _ in range(90)],
        "split": ["train"] * 60 + ["test"] * 30,
    }
)


def test_categorify__equals_scikit_learn() -> None:
    from sklearn.preprocessing import OrdinalEncoder

    found = assert_same_for_any_parts(Categorify(columns=("s", "i", "b")), {"rows": FRAME}, ["id"])
    for name in ("s", "i", "b"):
        texts = FRAME[name].cast(pl.String)
        encoder = OrdinalEncoder().fit(texts.drop_nulls().to_numpy().reshape(-1, 1).astype(object))
        codes = [None if text is None else int(encoder.transform([[text]])[0, 0]) for text in texts]
        assert found[name].to_list() == codes
        assert found.schema[name] == pl.Int32


def test_categorify__gives_no_code_to_what_it_did_not_learn() -> None:
    frame = pl.DataFrame({"s": ["a", "b", "b", "new", None], "split": ["train"] * 3 + ["test"] * 2})
    found = run_stage(Categorify(columns=("s",), fit_where="split = 'train'"), {"rows": frame}, 2)
    assert found[""]["s"].to_list() == [0, 1, 1, None, None]
    assert found["fitted"].rows() == [("s", "a", 1, 0), ("s", "b", 2, 1)]
    rare = run_stage(Categorify(columns=("s",), min_count=2), {"rows": frame}, 2)
    assert rare[""]["s"].to_list() == [None, 0, 0, None, None]


def test_categorify__puts_rare_and_new_values_into_a_bucket_as_scikit_learn_does() -> None:
    from sklearn.preprocessing import OrdinalEncoder

    stage = Categorify(columns=("s", "i"), min_count=12, rare="bucket", fit_where="split = 'train'")
    frame = FRAME.with_columns(s=pl.when(pl.col("id") == 80).then(pl.lit("new")).otherwise("s"))
    found = assert_same_for_any_parts(stage, {"rows": frame}, ["id"])
    for name in ("s", "i"):
        texts, learns = frame[name].cast(pl.String), frame["split"] == "train"
        learned = texts.filter(learns).drop_nulls().to_numpy().reshape(-1, 1).astype(object)
        encoder = OrdinalEncoder(min_frequency=12).fit(learned)
        assert encoder.infrequent_categories_[0] is not None
        rare = len(encoder.categories_[0]) - len(encoder.infrequent_categories_[0])
        known = set(encoder.categories_[0])
        codes = [None if text is None else int(encoder.transform([[text]])[0, 0]) if text in known else rare for text in texts]
        assert found[name].to_list() == codes


def test_categorify__says_the_sizes_of_embeddings() -> None:
    many = pl.DataFrame({"a": range(1000), "b": [0, 1] * 500, "c": pl.Series([None] * 1000, dtype=pl.Int64)})
    stage = Categorify(columns=("a", "b", "c"))
    assert run_stage(stage, {"rows": many}, 3)["embeddings"].rows() == [("a", 1000, 77), ("b", 2, 2), ("c", 0, 1)]
    bucket = stage.model_copy(update={"rare": "bucket", "min_count": 2})
    found = run_stage(bucket, {"rows": many}, 3)
    assert found["embeddings"].rows() == [("a", 1, 2), ("b", 3, 3), ("c", 1, 2)]
    assert found["fitted"].rows() == [("a", None, 1000, 0), ("b", "0", 500, 0), ("b", "1", 500, 1), ("b", None, 0, 2), ("c", None, 0, 0)]


def test_categorify__over_workers_is_the_same(workers: ClusterSession) -> None:
    stage = Categorify(columns=("s", "i"))
    expected, found = run_stage(stage, {"rows": FRAME}), run_stage(stage, {"rows": FRAME}, 3, workers)
    assert found[""].equals(expected[""])
    assert found["fitted"].equals(expected["fitted"])


def test_categorify__refuses_floats() -> None:
    with pytest.raises(StageError, match="'x' is Float64, and categories are text"):
        plan_stage(Categorify(columns=("x",)), {"rows": pl.DataFrame({"x": [0.5]})})
