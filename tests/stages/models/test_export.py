"""export: a published model as ONNX predicts what ours predicts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, InputError, PlaceError, RefusedError, StageError
from pipeline.registry import STAGES, stage_class
from pipeline.stages.models._exported import graph as _onnx
from pipeline.stages.models._exported.graph import OnnxPredictor, onnx_file
from pipeline.stages.models._exported.of_trees import graph_of_trees
from pipeline.stages.models._exported.treelite import TreelitePredictor, forest_of
from pipeline.stages.models._predictor import Learns
from pipeline.stages.models.export import Export
from pipeline.stages.models.score import Score
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import counts_of, plan_stage, run_stage
from tests.small import inside
from tests.stages.models.test_score import CLASSES, KEPT, raw_rows, training_job
from tests.stages.models.training import FEATURES, PEOPLE, labels, numbers

ROWS = raw_rows(60).drop("level", "high", "third")
EXAMPLES = [
    StageExample(
        Export(model=str(KEPT)).opened(stage_class),
        {"rows": ROWS},
        tolerances={"largest_difference": 1e-5, "mean_difference": 1e-5},
        needs="onnxruntime",
    )
]
EXPORTING = """\
job: export
results: exported
inputs: {rows: {format: parquet, path: rows.parquet, parts: 3}}
stages:
  - {use: export, from: rows, as: small, model: trained/current/models/model.json}
outputs: {compared: {from: small}}
"""
SCORING = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: rows.parquet}}
stages:
  - {use: score, from: rows, as: scores, model: exported/current/models/small.json}
outputs: {scores: {from: scores, sort_by: id}}
"""


@pytest.mark.parametrize(
    ("target", "objective", "more"), [("high", "binary", ""), ("level", "regression", ""), ("third", "multiclass", CLASSES)]
)
def test_export__gives_a_file_that_predicts_what_training_did(target: str, objective: str, more: str, tmp_path: Path) -> None:
    raw_rows().write_parquet(tmp_path / "rows.parquet", row_group_size=90)
    for name, text in {"train": training_job(target, objective, more), "export": EXPORTING, "score": SCORING}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    with inside(tmp_path):
        trained = pipeline.load("train.yaml").run().table("predictions").to_polars().sort("id")
        first, again = (pipeline.load("export.yaml").run() for _ in range(2))
        scored = pipeline.load("score.yaml").run().table("scores").to_polars()
    columns = [name for name in trained.columns if name.startswith("prediction")]
    assert scored.columns == ["id", *columns]
    np.testing.assert_allclose(scored.select(columns), trained.select(columns), rtol=1e-5, atol=1e-5)
    compared = first.table("compared").to_polars()
    assert compared["column"].to_list() == columns
    assert compared["rows"].to_list() == [400] * len(columns)
    assert 0 <= float(compared["largest_difference"].to_numpy().max()) <= 1e-5
    assert first.metrics["small"] == {"rows": 400, "largest_difference": compared["largest_difference"].max()}
    files = [Path(run.path) / "models" / "small.onnx" for run in (first, again)]
    assert files[0].read_bytes() == files[1].read_bytes()


def booster(objective: str, frame: pl.DataFrame = PEOPLE, **more: Any) -> tuple[bytes, Any, Any]:
    """A booster of XGBoost's own, with codes and gaps: as it is saved, the features, and its predictions of them."""
    target = {"binary": "binary", "multi": "multiclass"}.get(objective.partition(":")[0], "regression")
    known = frame.drop_nulls(target)
    truth, matrix = labels(known, target), numbers(known)
    if objective.startswith(("count", "reg:gamma", "reg:tweedie", "reg:logistic", "reg:squaredlog")):
        truth = 0.9 * (truth - truth.min()) / np.ptp(truth) + 0.05
    if objective.startswith("rank"):
        truth = (truth > 0).astype(int)
    data = xgb.DMatrix(matrix, truth, feature_names=FEATURES, feature_types=["q", "q", "c", "q"], enable_categorical=True)
    if objective.startswith("rank"):
        data.set_group([len(truth)])
    trained = xgb.train({"objective": objective, "tree_method": "hist", "max_depth": 4, "nthread": 1, **more}, data, 25)
    return bytes(trained.save_raw("ubj")), matrix, trained.inplace_predict(matrix)


def described(columns: int) -> dict[str, Any]:
    predicts = {f"prediction_{number}": "Float32" for number in range(columns)}
    return {"model": "m.onnx", "target": "y", "precision": "Float32", "predicts": predicts, "features": FEATURES}


SEVERAL: Mapping[str, Mapping[str, Any]] = {
    "multi:softprob": {"num_class": 3},
    "reg:quantileerror": {"quantile_alpha": [0.1, 0.5, 0.9]},
}
ALL = [
    "reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror", "rank:ndcg", "rank:map",
    "rank:pairwise", "binary:logistic", "reg:logistic", "count:poisson", "reg:gamma", "reg:tweedie", "multi:softprob", "binary:logitraw",
]  # fmt: skip


@pytest.mark.parametrize("objective", ALL)
def test_graph_of_trees__predicts_as_xgboost_with_each_objective(objective: str) -> None:
    content, matrix, expected = booster(objective, **SEVERAL.get(objective, {}))
    columns = 1 if expected.ndim == 1 else expected.shape[1]
    found = OnnxPredictor(onnx_file(graph_of_trees(content), described(columns))).predict(matrix)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize("objective", ALL)
def test_forest_of__predicts_as_xgboost_with_each_objective(objective: str) -> None:
    content, matrix, expected = booster(objective, **SEVERAL.get(objective, {}))
    found = TreelitePredictor(forest_of(content, logistic=False))
    np.testing.assert_allclose(found.predict(matrix), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(matrix), found.predict(matrix))


def test_treelite__is_published_and_scored_as_onnx_is(tmp_path: Path) -> None:
    raw_rows().write_parquet(tmp_path / "rows.parquet", row_group_size=90)
    exporting = EXPORTING.replace("as: small,", "as: small, format: treelite,")
    for name, text in {"train": training_job("third", "multiclass", CLASSES), "export": exporting, "score": SCORING}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    with inside(tmp_path):
        trained = pipeline.load("train.yaml").run().table("predictions").to_polars().sort("id")
        first, again = (pipeline.load("export.yaml").run() for _ in range(2))
        scored = pipeline.load("score.yaml").run().table("scores").to_polars()
    np.testing.assert_allclose(scored.drop("id"), trained.select(scored.columns[1:]), rtol=1e-5, atol=1e-5)
    assert first.metrics["small"]["largest_difference"] <= 1e-5
    files = [Path(run.path) / "models" / "small.treelite" for run in (first, again)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_forest_of__refuses_what_treelite_does_not_take() -> None:
    matrix = np.nan_to_num(numbers(PEOPLE))
    linear = xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(matrix, matrix[:, 0]), 2)
    with pytest.raises(DataError, match="Treelite does not take the booster"):
        forest_of(bytes(linear.save_raw("ubj")), logistic=False)
    with pytest.raises(InputError, match="no file of trees that this version of Treelite reads"):
        TreelitePredictor(b"none" * 9)


@pytest.mark.parametrize(
    "more", [{"num_parallel_tree": 3, "subsample": 0.5}, {"max_depth": 0, "max_leaves": 9, "grow_policy": "lossguide"}, {"gamma": 1e9}]
)
def test_graph_of_trees__takes_forests_and_trees_that_are_leaves(more: dict[str, Any]) -> None:
    content, matrix, expected = booster("binary:logistic", **more)
    found = OnnxPredictor(onnx_file(graph_of_trees(content), described(1))).predict(matrix)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_graph_of_trees__sends_codes_and_gaps_where_xgboost_does() -> None:
    random = np.random.default_rng(3)
    codes, effects = random.integers(0, 300, 4000), random.normal(size=300)
    matrix = np.column_stack([codes, random.normal(size=4000)]).astype(np.float32)
    matrix[random.random((4000, 2)) < 0.1] = np.nan
    data = xgb.DMatrix(matrix, effects[codes], feature_types=["c", "q"], enable_categorical=True)
    trained = xgb.train({"max_depth": 8, "tree_method": "hist", "max_cat_to_onehot": 1, "nthread": 1}, data, 20)
    beyond = np.array([[300, 0], [299, np.nan], [0, 0], [np.nan, np.nan]], np.float32)
    rows = np.vstack([matrix, beyond])
    file = onnx_file(graph_of_trees(bytes(trained.save_raw("ubj"))), {**described(1), "features": ["code", "x"]})
    np.testing.assert_allclose(OnnxPredictor(file).predict(rows), trained.inplace_predict(rows), rtol=1e-5, atol=1e-5)


def test_graph_of_trees__is_read_alike_by_onnx_itself() -> None:
    from onnx import load_from_string, numpy_helper
    from onnx.reference import ReferenceEvaluator

    content, matrix, expected = booster("multi:softprob", PEOPLE.with_columns(pl.col("group") + 1), num_class=3)
    model = load_from_string(onnx_file(graph_of_trees(content), described(3)))
    (members,) = (attribute.t for attribute in model.graph.node[0].attribute if attribute.name == "membership_values")
    codes = numpy_helper.to_array(members)
    members.CopyFrom(numpy_helper.from_array(np.where(codes == 0, 9, codes)))  # no row has either, and the evaluator ends a set at a 0
    found = ReferenceEvaluator(model).run(None, {"features": matrix[:50]})
    np.testing.assert_allclose(np.column_stack(found), expected[:50], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("objective", "more", "said"),
    [
        ("binary:hinge", {}, "XGBoost's objective 'binary:hinge' has no form in ONNX here"),
        ("binary:logistic", {"booster": "dart"}, "the booster is 'dart', and only trees of gbtree"),
    ],
)
def test_graph_of_trees__refuses_what_onnx_cannot_say(objective: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        graph_of_trees(booster(objective, **more)[0])


def test_graph_of_trees__refuses_leaves_of_several_values() -> None:
    matrix = numbers(PEOPLE)
    data = xgb.DMatrix(matrix, np.nan_to_num(matrix[:, :2]))
    trained = xgb.train({"multi_strategy": "multi_output_tree", "tree_method": "hist", "nthread": 1}, data, 2)
    with pytest.raises(DataError, match="leaves of several values"):
        graph_of_trees(bytes(trained.save_raw("ubj")))


def test_onnx__travels_to_another_worker() -> None:
    content, matrix, _ = booster("reg:squarederror")
    predictor = OnnxPredictor(onnx_file(graph_of_trees(content), described(1)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(predictor)).predict(matrix), predictor.predict(matrix))


def test_export__over_two_workers_is_that_of_one(workers: ClusterSession) -> None:
    stage = EXAMPLES[0].stage
    assert_frame_equal(run_stage(stage, {"rows": ROWS}, 3, workers)[""], run_stage(stage, {"rows": ROWS})[""])


def test_export__publishes_nothing_where_predictions_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    predict, oldest = OnnxPredictor.predict, float(ROWS["age"].to_numpy().max())
    monkeypatch.setattr(OnnxPredictor, "predict", lambda self, features: predict(self, features) + np.float32(1e-3))
    with pytest.raises(DataError, match=r"'prediction' of the onnx file differs from ours by up to 0\.001, more than 1e-05"):
        run_stage(EXAMPLES[0].stage, {"rows": ROWS})
    monkeypatch.setattr(
        OnnxPredictor, "predict", lambda self, features: np.where(features[:, 1] == oldest, np.nan, predict(self, features))
    )
    with pytest.raises(DataError, match="'prediction' of the onnx file differs from ours by up to nan"):
        run_stage(EXAMPLES[0].stage, {"rows": ROWS}, 7)


def test_export__needs_a_row_to_compare() -> None:
    with pytest.raises(DataError, match="no row to compare predictions of"):
        run_stage(EXAMPLES[0].stage, {"rows": ROWS.clear()})


def test_export__counts_its_rows_over_all_parts() -> None:
    assert counts_of(EXAMPLES[0].stage, {"rows": ROWS}, 7) == {"rows_compared": 60}


def published(folder: Path, **more: Any) -> str:
    """The model that is kept, exported by hand into a folder."""
    told = {**json.loads(KEPT.read_text()), "use": "export", "model": "small.onnx", "format": "onnx", "precision": "Float32", **more}
    content = graph_of_trees(KEPT.with_suffix(".ubj").read_bytes())
    told.setdefault("predicts", {"prediction": "Float32"})
    (folder / "small.onnx").write_bytes(onnx_file(content, told))
    (folder / "small.json").write_text(json.dumps(told))
    return str(folder / "small.json")


def test_export__of_onnx_and_of_a_model_without_a_form_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageError, match="the model was exported already"):
        Export(model=published(tmp_path)).opened(stage_class)
    monkeypatch.setattr(stage_class("xgboost"), "exports", ())
    with pytest.raises(StageError, match="was learned by xgboost, which has no form in onnx here"):
        Export(model=str(KEPT)).opened(stage_class)


def test_export__is_offered_of_exactly_the_models_that_have_the_form() -> None:
    learners = {name: kind for name in STAGES.modules if issubclass(kind := stage_class(name), Learns)}
    assert {"xgboost", "linear", "network", "k_means", "isolation_forest", "cox"} <= learners.keys()
    for name, kind in learners.items():
        made = {form: next(each for each in kind.__mro__ if how in vars(each)) for form, how in (("onnx", "graph"), ("treelite", "forest"))}
        assert kind.exports == tuple(form for form, owner in made.items() if owner is not Learns), name


def test_export__of_rows_that_are_not_those_of_the_model_is_refused_before_a_run() -> None:
    with pytest.raises(StageError, match="the model needs the column 'age', as Int64"):
        plan_stage(EXAMPLES[0].stage, {"rows": ROWS.drop("age")})


def test_export__says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_onnx, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"onnx is not installed. Install it with: pip install '\.\[export\]'"):
        plan_stage(EXAMPLES[0].stage, {"rows": ROWS})


def test_score__by_onnx_of_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    model = published(tmp_path)
    (tmp_path / "small.onnx").write_bytes(b"none")
    with pytest.raises(InputError, match="this is no ONNX file that onnxruntime reads"):
        run_stage(Score(model=model).opened(stage_class), {"rows": ROWS})


def test_a_job__names_the_line_of_a_model_that_cannot_be_exported(tmp_path: Path) -> None:
    (tmp_path / "trained" / "current" / "models").mkdir(parents=True)
    published(tmp_path / "trained" / "current" / "models")
    ROWS.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "export.yaml").write_text(EXPORTING.replace("model.json", "small.json"))
    with inside(tmp_path), pytest.raises(RefusedError, match=r"export\.yaml:5:.*stages\.small\.model: the model was exported already"):
        pipeline.load("export.yaml").plan()
