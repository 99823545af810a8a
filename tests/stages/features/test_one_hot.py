"""one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import StageError
from pipeline.stages.features.one_hot import OneHot
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples
from tests.stages.features.learned import FRAME, TRAIN, train

EXAMPLES = [
    StageExample(OneHot(columns=("key", "flag"), most=2, other=True, fit_where="id < 6"), {"rows": examples.MIXED}, ordered=True),
    StageExample(OneHot(columns={"key": ("a", "z"), "flag": (True,), "n": (1, 5)}), {"rows": examples.MIXED}, ordered=True),
]


def test_one_hot__of_stated_categories_equals_scikit_learn() -> None:
    from sklearn.preprocessing import OneHotEncoder

    given = {"city": ("b", "a", "none"), "flag": (True, False), "i": (1, 30)}
    found = assert_same_for_any_parts(OneHot(columns=given), {"rows": FRAME}, ["id"])
    texts = FRAME.select(pl.col(list(given)).cast(pl.String).fill_null("missing")).to_numpy().astype(object)
    categories = [["b", "a", "none"], ["true", "false"], ["1", "30"]]
    expected = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False).fit(texts).transform(texts)
    names = [f"{name}_{value}" for name, values in zip(given, categories, strict=True) for value in values]
    np.testing.assert_array_equal(found.select(names).to_numpy(), expected)
    assert found.columns == ["id", "x", "y", "split", *names]


def test_one_hot__learns_the_most_frequent() -> None:
    found = assert_same_for_any_parts(OneHot(columns=("city", "flag"), most=3, other=True, fit_where=TRAIN), {"rows": FRAME}, ["id"])
    for name in ("city", "flag"):
        texts = train()[name].drop_nulls().cast(pl.String).to_list()
        wanted = sorted(set(texts), key=lambda value: (-texts.count(value), value))[:3]
        asked = FRAME[name].cast(pl.String)
        for place in range(3):
            value = wanted[place] if place < len(wanted) else None
            assert found[f"{name}_{place + 1}"].to_list() == [int(text is not None and text == value) for text in asked]
        assert found[f"{name}_other"].to_list() == [int(text is not None and text not in wanted) for text in asked]


def test_one_hot__may_name_a_new_column_like_an_old_one() -> None:
    found = run_stage(OneHot(columns={"a": ("b",), "a_b": ("x",)}), {"rows": pl.DataFrame({"a": ["b", "c"], "a_b": ["x", None]})})
    assert found[""].to_dict(as_series=False) == {"a_b": [1, 0], "a_b_x": [1, 0]}


def test_one_hot__refuses_what_does_not_fit() -> None:
    wrong: list[dict[str, Any]] = [{"columns": "city"}, {"columns": {"city": ["a"]}, "most": 2}]
    for given in wrong:
        with pytest.raises(ValidationError, match="give either categories"):
            OneHot.model_validate(given)
    with pytest.raises(ValidationError, match="leave out fit_where"):
        OneHot.model_validate({"columns": {"city": ["a"]}, "fit_where": TRAIN})
    with pytest.raises(StageError, match="'x' is Float64, and categories are text"):
        plan_stage(OneHot(columns=("x",), most=2), {"rows": FRAME})
    with pytest.raises(StageError, match="two columns 'city_a'"):
        plan_stage(OneHot(columns={"city": ("a", "a")}), {"rows": FRAME})
