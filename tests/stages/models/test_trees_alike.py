"""What one task finds by itself and several are told: cuts, draws and where the trees begin, beside XGBoost's own."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

from pipeline.stages.models._learning import Learning
from pipeline.stages.models._trees.blocks import BLOCK, begin_block, seed_of
from pipeline.stages.models._trees.booster import Trees
from pipeline.stages.models._trees.cuts import cuts_of, reference
from pipeline.stages.models._trees.draws import Draws
from pipeline.stages.models._trees.ordering import Ordering, intercept
from pipeline.testing.stages import SEED
from tests.stages.models.training import stage_for

ROWS = 3000


def learning(**more: Any) -> Trees:
    """A stage with these parameters, as tasks take it."""
    return Learning("tested", stage_for("binary", **more), columns=(), types=(), arrays=(), seed=SEED, backend="cpu", threads=1)


def columns() -> tuple[list[str], np.ndarray[Any, Any]]:
    """Features at the limits of what can be cut, with their names; the last one is categorical."""
    dice = np.random.default_rng(5)
    normal = dice.normal(size=ROWS)
    features = {
        "normal": normal,
        "gaps": np.where(dice.random(ROWS) < 0.7, np.nan, normal),
        "ties": np.round(normal),
        "constant": np.full(ROWS, 3.0),
        "missing": np.full(ROWS, np.nan),
        "one": np.where(np.arange(ROWS) == 7, -2.5, np.nan),
        "two": np.where(dice.random(ROWS) < 0.5, 0.0, -0.0) + (np.arange(ROWS) % 2),
        "as_many_as_bins": np.arange(ROWS) % 256,
        "one_more": np.arange(ROWS) % 257,
        "great": normal * 1e37,
        "small": normal * 1e-38,
        "skewed": np.exp(6 * normal),
        "group": np.where(dice.random(ROWS) < 0.1, np.nan, dice.integers(0, 300, ROWS)),
    }
    return [*features], np.column_stack([*features.values()]).astype(np.float32)


@pytest.mark.parametrize("bins", [2, 5, 256])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts__of_features_apart_and_of_parts_are_those_of_xgboost_on_all(bins: int, weighted: bool) -> None:
    dice, told = np.random.default_rng(6), learning(categorical=["group"], max_bin=bins)
    names, table = columns()
    types = told.stage.feature_types(names)
    weights = dice.integers(0, 4, ROWS) * 0.7 if weighted else None
    places = np.split(dice.permutation(ROWS), [0, 1, 2000])
    order = Ordering({}, places, np.array([1000, 1001, ROWS]), weights, lambda _labels: None, "")
    found = list[Any]()
    for first in range(0, len(names), 3):
        some = slice(first, first + 3)
        found += cuts_of(told, types[some], order, [table[at, some] for at in places if len(at)])
    about = {"feature_types": types, "enable_categorical": True, "max_bin": bins}
    expected = xgb.QuantileDMatrix(table, weight=weights, **about).get_quantile_cut()
    for mine, right in zip(reference(told, names, found).get_quantile_cut(), expected, strict=True):
        np.testing.assert_array_equal(mine[1:], right[1:])
    matrix = xgb.QuantileDMatrix(table[:50], ref=reference(told, names, found), feature_names=names, **about)
    for name, (first, last) in zip(names, pairwise(expected[0].astype(int)), strict=True):
        assert name in (matrix.feature_names or ())
        np.testing.assert_array_equal(matrix.get_quantile_cut()[1][first + 1 : last], expected[1][first + 1 : last], name)


@pytest.mark.parametrize("classes", [0, 3])
def test_draws__are_those_of_xgboost_on_all_rows(classes: int) -> None:
    dice = np.random.default_rng(8)
    labels = dice.integers(0, classes or 2, ROWS).astype(float)
    objective = {"objective": "multi:softprob", "num_class": classes} if classes else {"objective": "reg:squarederror"}
    native = {**objective, "subsample": 0.4, "tree_method": "hist", "seed": SEED, "max_depth": 1, "nthread": 1, "learning_rate": 1e-9}
    matrix = xgb.QuantileDMatrix(dice.normal(size=(ROWS, 2)), labels)
    booster = xgb.Booster(native, [matrix])
    for at in range(BLOCK + 3):
        if at == BLOCK:
            begin_block(booster, native, 1)
        booster.update(matrix, at)
    covers = [float(tree["cover"]) for tree in map(json.loads, booster.get_dump(dump_format="json", with_stats=True))]
    each = max(1, classes)
    draws = [Draws(SEED, 0.4, classes, some, labels[some], None) for some in np.split(dice.permutation(ROWS), [1, 900])]
    counts = [sum(int(of.drawn(at, tree).sum()) for of in draws) for at in range(BLOCK + 3) for tree in range(each)]
    unit = np.tile(np.array(covers[:each]) / counts[:each], BLOCK + 3)  # what one row covers, of every class
    np.testing.assert_allclose(covers, counts * unit, rtol=1e-5)
    assert len({*counts}) > BLOCK
    assert seed_of(SEED, 0) == SEED


@pytest.mark.parametrize(
    ("native", "values"),
    [
        ({"objective": "binary:logistic", "scale_pos_weight": 3.0}, 2),
        ({"objective": "multi:softprob", "num_class": 4}, 4),
        ({"objective": "reg:squarederror"}, 1000),
        ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.7]}, 1000),
    ],
)
def test_intercept__is_that_of_xgboost_on_all_rows(native: dict[str, Any], values: int) -> None:
    dice = np.random.default_rng(9)
    labels, weights = dice.integers(0, values, ROWS).astype(float), dice.random(ROWS)
    native |= {"tree_method": "hist", "seed": 3, "nthread": 1}
    matrix = xgb.QuantileDMatrix(dice.normal(size=(ROWS, 2)), labels, weight=weights)
    booster = xgb.train({**native, "max_depth": 2}, matrix, 2)
    expected = json.loads(booster.save_raw("json"))["learner"]["learner_model_param"]["base_score"]
    assert intercept(learning(), native, labels, weights) == expected
    assert intercept(learning(), {**native, "base_score": 0.25}, labels, weights) == "0.25"
