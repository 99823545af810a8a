"""fill_missing."""

from __future__ import annotations

import random
import statistics
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import ExpressionError, StageError
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests import example_tables as examples

CHOSEN = {"x": {"method": "median"}, "key": {"method": "most_frequent"}, "flag": {"method": "most_frequent"}}
EXAMPLES = [
    StageExample(FillMissing(columns=["x", "n"], method="mean", indicator=True, fit_where="id < 5"), {"rows": examples.MIXED}),
    StageExample(FillMissing(columns=CHOSEN), {"rows": examples.MIXED}),
    StageExample(FillMissing(columns=["x", "n"], method="median", by=["key", "flag"], fit_where="id < 6"), {"rows": examples.MIXED}),
    StageExample(FillMissing(columns={"x": {"method": "mean"}, "n": {"value": 3}}, by=["key"], indicator=True), {"rows": examples.MIXED}),
    StageExample(FillMissing(columns={"x": {"value": 1}, "key": {"value": "none"}, "n": {"method": "zero"}}), {"rows": examples.MIXED}),
]

RANDOM = random.Random(9)
ROWS = 101
FRAME = pl.DataFrame(
    {
        "id": range(ROWS),
        "x": [RANDOM.choice([None, RANDOM.gauss(1e6, 1)]) for _ in range(ROWS)],
        "i": [RANDOM.choice([None, *range(7)]) for _ in range(ROWS)],
        "s": [RANDOM.choice([None, "a", "b", "b"]) for _ in range(ROWS)],
        "b": [RANDOM.choice([None, True]) for _ in range(ROWS)],
        "split": [RANDOM.choice(["train", "test"]) for _ in range(ROWS)],
    }
)


def fill(**given: Any) -> FillMissing:
    return FillMissing.model_validate(given)


@pytest.mark.parametrize("method", ["mean", "median", "most_frequent"])
@pytest.mark.parametrize("where", [None, "split = 'train'"])
def test_fill_missing__equals_scikit_learn(method: str, where: str | None) -> None:
    from sklearn.impute import SimpleImputer

    found = assert_same_for_any_parts(fill(columns=["x", "i"], method=method, fit_where=where), {"rows": FRAME}, ["id"])
    learned = FRAME if where is None else FRAME.filter(pl.col("split") == "train")
    imputer = SimpleImputer(strategy=method).fit(learned.select("x", "i").cast(pl.Float64).fill_null(float("nan")).to_numpy())
    expected = imputer.transform(FRAME.select("x", "i").cast(pl.Float64).fill_null(float("nan")).to_numpy())
    for number, name in enumerate(("x", "i")):
        assert found[name].cast(pl.Float64).to_list() == pytest.approx(expected[:, number].tolist(), rel=1e-11)


@pytest.mark.parametrize("method", ["mean", "median"])
def test_fill_missing__by_group_fills_with_what_python_finds_there(method: str) -> None:
    stage = fill(columns=["x"], method=method, by=["s", "b"], fit_where="split = 'train'")
    found = assert_same_for_any_parts(stage, {"rows": FRAME.drop("i")}, ["id"])
    learned = FRAME.filter(pl.col("split") == "train")
    values: dict[tuple[Any, ...], list[float]] = {key: [] for key in FRAME.select("s", "b").rows()}
    for *key, value in learned.select("s", "b", "x").rows():
        values[tuple(key)] += [] if value is None else [value]
    figure = statistics.fmean if method == "mean" else statistics.median
    whole = figure(learned["x"].drop_nulls())
    expected = [figure(values[key]) if values[key] else whole for key in FRAME.select("s", "b").rows()]
    wanted = [old if old is not None else new for old, new in zip(FRAME["x"], expected, strict=True)]
    assert found["x"].to_list() == pytest.approx(wanted, rel=1e-11)


def test_fill_missing__refuses_groups_by_what_it_fills_and_of_other_methods() -> None:
    with pytest.raises(StageError, match="'i' makes the groups"):
        plan_stage(fill(columns=["x", "i"], method="mean", by="i"), {"rows": FRAME})
    with pytest.raises(StageError, match="a fraction is no key"):
        plan_stage(fill(columns=["i"], method="mean", by="x"), {"rows": FRAME})
    for given in ({"columns": "x", "value": 1}, {"columns": "x", "method": "most_frequent"}):
        with pytest.raises(ValidationError, match="by is for mean and median"):
            fill(by="s", **given)


def test_fill_missing__takes_constants_by_column_and_marks_what_was_missing() -> None:
    stage = fill(columns={"s": {"value": "none"}, "b": {"value": False}, "i": {"method": "zero"}, "x": {"value": 3}}, indicator=True)
    found = assert_same_for_any_parts(stage, {"rows": FRAME}, ["id"])
    for name, value in {"s": "none", "b": False, "i": 0, "x": 3.0}.items():
        assert found[name].to_list() == [value if old is None else old for old in FRAME[name]]
        assert found[f"{name}_missing"].to_list() == [int(old is None) for old in FRAME[name]]
        assert found.schema[name] == FRAME.schema[name]


def test_fill_missing__learns_the_most_frequent_text() -> None:
    fitted = run_stage(fill(columns=["s", "b"], method="most_frequent"), {"rows": FRAME}, 3)["fitted"]
    assert fitted.to_dict(as_series=False) == {"rows seen": [ROWS], "s": ["b"], "b": [True]}


def test_fill_missing__mean_is_the_same_to_the_last_bit_for_any_parts() -> None:
    means = {run_stage(fill(columns=["x"], method="mean"), {"rows": FRAME}, parts)["fitted"]["x"].item() for parts in (1, 2, 3, 7, 50)}
    assert len(means) == 1
    assert means == {float(f"{statistics.fmean(FRAME['x'].drop_nulls()):.12g}")}


def test_fill_missing__over_workers_is_the_same(workers: ClusterSession) -> None:
    stage = fill(columns={"x": {"method": "mean"}, "i": {"method": "median"}, "s": {"method": "most_frequent"}})
    expected, found = run_stage(stage, {"rows": FRAME}), run_stage(stage, {"rows": FRAME}, 3, workers)
    assert found[""].equals(expected[""])
    assert found["fitted"].equals(expected["fitted"])


@pytest.mark.parametrize("method", ["mean", "median", "most_frequent"])
def test_fill_missing__leaves_a_column_without_values_missing(method: str) -> None:
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Float64)})
    assert run_stage(fill(columns="x", method=method), {"rows": frame})[""]["x"].to_list() == [None, None]


def test_fill_missing__refuses_what_does_not_fit() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"columns": "q", "value": 1}, "no column 'q'"),
        ({"columns": "s", "method": "mean"}, "'s' is String: mean needs numbers"),
        ({"columns": "s", "value": 1}, "the constant 1 is of another kind"),
        ({"columns": "x", "value": "1"}, "the constant '1' is of another kind"),
        ({"columns": "i", "value": True}, "the constant True is of another kind"),
        ({"columns": "i", "value": 0.5}, "has a fraction"),
        ({"columns": "x", "value": float("nan")}, "is no number"),
    ]
    for given, message in refused:
        with pytest.raises(StageError, match=message):
            plan_stage(fill(**given), {"rows": FRAME})
    with pytest.raises(StageError, match="beyond its range"):
        plan_stage(fill(columns="n", value=300), {"rows": pl.DataFrame({"n": pl.Series([1], dtype=pl.Int8)})})
    with pytest.raises(StageError, match="'x_missing' already"):
        plan_stage(fill(columns="x", value=0, indicator=True), {"rows": FRAME.with_columns(x_missing=1)})
    with pytest.raises(ExpressionError, match="no column 'part'"):
        plan_stage(fill(columns="x", method="mean", fit_where="part = 1"), {"rows": FRAME})
    wrongs: list[dict[str, Any]] = [{"columns": "x"}, {"columns": "x", "value": 1, "method": "mean"}, {"columns": {"x": {}}}]
    for wrong in wrongs:
        with pytest.raises(ValidationError, match="either value"):
            fill(**wrong)
    with pytest.raises(ValidationError, match="leave out value and method"):
        fill(columns={"x": {"value": 1}}, method="mean")
