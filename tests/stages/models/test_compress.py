"""compress: smaller forms of a published model, chosen by what they lose, and what each costs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import le
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb
from polars.testing import assert_frame_equal

import pipeline
from pipeline.backend.devices import Backend
from pipeline.errors import DataError, InputError, RefusedError, StageError
from pipeline.kernels.metrics import log_loss, rmse
from pipeline.registry import stage_class
from pipeline.stage import Context, Stage
from pipeline.stages.models._predictor import Predictor
from pipeline.stages.models._smaller.forms import lowest
from pipeline.stages.models._smaller.quantized import quantized
from pipeline.stages.models._smaller.tree_pruning import fewer_leaves, fewer_rounds
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models.compress import Compress
from pipeline.stages.models.export import Export
from pipeline.stages.models.score import Score
from pipeline.tables.part import concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, cut, even_sizes, plan_stage, run_stage, table_schemas
from tests.small import inside
from tests.stages.models.test_score import KEPT, raw_rows, training_job
from tests.stages.models.training import FEATURES, PEOPLE, Result, labels, numbers, stage_for, train

SPLITS = pl.Series("split", np.random.default_rng(4).choice(["train", "validation", "test"], 60))
ROWS = raw_rows(60).drop("level", "third").with_columns(SPLITS)
EXAMPLES = [
    StageExample(
        Compress.model_validate({"model": str(KEPT), "tolerance": 0.05, **told}).opened(stage_class),
        {"rows": ROWS},
        modelled=("prediction", "value"),
        needs="xgboost",
    )
    for told in (
        {"method": "prune_trees"},
        {"method": "prune_leaves"},
        {"method": "distill", "tolerance": 10, "student": {"use": "xgboost", "rounds": 5, "max_depth": 2}},
    )
]
LONG = {"rounds": 60, "early_stopping_rounds": None, "categorical": ("group",)}


@dataclass(frozen=True)
class Found:
    """All that the stage gave."""

    predictions: pl.DataFrame
    tradeoff: pl.DataFrame
    files: dict[str, bytes]
    metrics: dict[str, dict[str, float]]
    counts: dict[str, int]
    warnings: list[str]

    def saved(self, folder: Path) -> str:
        """Its model, published into a folder."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return str(folder / "small.json")

    @property
    def booster(self) -> xgb.Booster:
        """Its model, loaded."""
        return loaded(self.files["small.ubj"])

    @property
    def predicted(self) -> Any:
        """Its predictions, [rows] or [rows, classes]."""
        return self.predictions.select(pl.col("^prediction.*$")).to_numpy().squeeze()


def loaded(content: bytes) -> xgb.Booster:
    booster = xgb.Booster()
    booster.load_model(bytearray(content))
    return booster


def published(result: Result, folder: Path) -> str:
    """A model that was trained, as files in a folder."""
    (folder / "tested.ubj").write_bytes(result.model)
    (folder / "tested.json").write_text(json.dumps(result.description))
    return str(folder / "tested.json")


def compress(model: str, rows: pl.DataFrame = PEOPLE, parts: int = 1, session: Session | None = None, **told: Any) -> Found:
    stages: Callable[[str], type[Stage]] = told.pop("stages", stage_class)
    stage = Compress.model_validate({"model": model, **told}).opened(stages)
    session, pieces = session or Session(), cut(rows, even_sizes(rows.height, parts))
    schema = table_schemas({"rows": rows})["rows"]
    outcome = stage.run({"rows": Table.of(session, "rows", pieces, schema=schema)}, Context("small", SEED, session))

    def had(value: Any) -> Any:
        return value.result(60) if session.is_future(value) else value

    frames = {name: concat_parts([had(part) for part in table.futures()]).frame for name, table in outcome.tables.items()}
    files = {name: had(content) for name, content in outcome.files.items()}
    return Found(frames[""], frames["tradeoff"], files, had(outcome.metrics), had(outcome.counts), had(outcome.warnings))


def judged(objective: str, predicted: Any) -> float:
    """The loss on validation rows with a target, by its definition."""
    at = ((PEOPLE["split"] == "validation") & PEOPLE[objective].is_not_null()).to_numpy()
    truth, of = labels(PEOPLE.filter(at), objective), predicted[at]
    if objective == "regression":
        return rmse(truth, of)
    return log_loss(truth.astype(int), np.column_stack([1 - of, of]) if objective == "binary" else of)


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_prune_trees__keeps_the_fewest_first_rounds_that_native_xgboost_loses_little_by(objective: str, tmp_path: Path) -> None:
    given = train(stage_for(objective, **LONG), PEOPLE)
    found = compress(published(given, tmp_path), method="prune_trees", tolerance=0.05)
    matrix = xgb.DMatrix(numbers(PEOPLE), feature_names=FEATURES, feature_types=["q", "q", "c", "q"], enable_categorical=True)
    prefixes = {k: given.booster.predict(matrix, iteration_range=(0, k)) for k in range(1, 61)}
    limit, kept = 1.05 * judged(objective, prefixes[60]), found.booster.num_boosted_rounds()
    np.testing.assert_allclose(found.predicted, prefixes[kept], rtol=1e-6, atol=1e-6)
    assert 1 < kept < 60
    assert judged(objective, prefixes[kept]) <= limit < judged(objective, prefixes[kept - 1])
    assert json.loads(found.files["small.json"])["trees_used"] == kept
    assert found.counts["bytes_published"] == len(found.files["small.ubj"]) < found.counts["bytes_given"] == len(given.model)
    assert min(found.counts.values()) > 0
    assert found.warnings == []


def test_prune_leaves__gives_what_xgboosts_own_updater_does_with_the_rows_of_training(tmp_path: Path) -> None:
    given = train(stage_for("binary", **LONG), PEOPLE)
    found = compress(published(given, tmp_path), method="prune_leaves", tolerance=0.05)
    form = json.loads(found.files["small.json"])["compressed"]["form"]
    known = PEOPLE.drop_nulls("binary")
    types = {"feature_names": FEATURES, "feature_types": ["q", "q", "c", "q"], "enable_categorical": True}
    matrix = xgb.DMatrix(numbers(known), labels(known, "binary"), nthread=1, **types)
    told = {"process_type": "update", "updater": "prune", "gamma": float(form.split("gained ")[1].split(" ")[0]), "learning_rate": 0.3}
    with xgb.config_context(verbosity=0):
        cut_back = xgb.train({**told, "max_depth": 0}, matrix, 60, xgb_model=given.booster)
    np.testing.assert_allclose(found.predicted, cut_back.inplace_predict(numbers(PEOPLE)), rtol=1e-6)
    assert len(found.files["small.ubj"]) < 0.8 * len(given.model)
    assert found.booster.num_boosted_rounds() == 60
    assert found.booster.feature_names == FEATURES


def test_fewer_leaves__at_the_top_is_the_model_and_below_has_only_splits_that_gained_more() -> None:
    given = train(stage_for("multiclass", **LONG), PEOPLE)
    ladder, expected = fewer_leaves(given.model, 0.3), given.booster.inplace_predict(numbers(PEOPLE))
    np.testing.assert_array_equal(loaded(ladder.at(ladder.top).content).inplace_predict(numbers(PEOPLE)), expected)
    sizes = [len(ladder.at(step).content) for step in (1, 8, 32, 64)]
    assert sizes == sorted(sizes)
    form = ladder.at(32)
    threshold = float(form.said.split("gained ")[1].split(" ")[0])
    for tree in trees_of(loaded(form.content)):
        left, right, gains = tree["left_children"], tree["right_children"], tree["loss_changes"]
        ends = [node for node in range(len(left)) if left[node] >= 0 and left[left[node]] < 0 and left[right[node]] < 0]
        assert all(gains[node] >= 0.999 * threshold for node in ends)
        assert len(left) == int(tree["tree_param"]["num_nodes"]) == 2 * left.count(-1) - 1


def trees_of(booster: xgb.Booster) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    return trees


def test_fewer_leaves__have_the_weight_that_training_found_for_the_split_that_they_were() -> None:
    given = train(stage_for("regression", rounds=20, early_stopping_rounds=None, max_depth=1), PEOPLE)
    left = trees_of(loaded(fewer_leaves(given.model, 0.3).at(1).content))
    cut_back = [(was, now) for was, now in zip(trees_of(given.booster), left, strict=True) if now["left_children"] == [-1]]
    assert len(cut_back) == 19
    for was, now in cut_back:
        np.testing.assert_allclose(now["split_conditions"], [0.3 * was["base_weights"][0]], rtol=1e-6)


@pytest.mark.parametrize("objective", ["regression", "binary"])
def test_distill__has_the_student_learn_the_predictions(objective: str, tmp_path: Path) -> None:
    given = train(stage_for(objective, **LONG), PEOPLE)
    student = {"use": "xgboost", "rounds": 15, "max_depth": 3, "learning_rate": 0.3}
    found = compress(published(given, tmp_path), method="distill", tolerance=0.5, student=student)
    target = given.predicted.astype(float)
    target = np.log(target / (1 - target)) if objective == "binary" else target
    at = (PEOPLE["split"] == "train").to_numpy()
    types = {"feature_types": ["q", "q", "c", "q"], "enable_categorical": True}
    matrix = xgb.QuantileDMatrix(numbers(PEOPLE)[at], target[at], nthread=1, **types)
    told = {"max_depth": 3, "eta": 0.3, "lambda": 1, "tree_method": "hist", "seed": SEED, "nthread": 1, "objective": "reg:squarederror"}
    native = xgb.train(told, matrix, 15).predict(xgb.DMatrix(numbers(PEOPLE), **types))
    expected = 1 / (1 + np.exp(-native.astype(float))) if objective == "binary" else native
    np.testing.assert_allclose(found.predicted, expected, rtol=1e-6)
    assert len(found.files["small.ubj"]) < 0.5 * len(given.model)
    model = found.saved(tmp_path)
    scored = run_stage(Score(model=model).opened(stage_class), {"rows": PEOPLE})[""]
    assert_frame_equal(scored, found.predictions.select(scored.columns), check_exact=True)
    for form in ("onnx", "treelite"):
        exported = run_stage(Export.model_validate({"model": model, "format": form}).opened(stage_class), {"rows": PEOPLE}, 2)[""]
        assert exported["rows"].to_list() == [600]
    again = compress(model, method="prune_trees", tolerance=0.2)
    assert again.booster.num_boosted_rounds() < 15


def test_distill__that_loses_too_much_is_not_published(tmp_path: Path) -> None:
    given = train(stage_for("regression", **LONG), PEOPLE)
    student = {"use": "xgboost", "rounds": 1, "max_depth": 1}
    with pytest.raises(DataError, match=r"loss on validation rows goes from 1\.\d+ to 2\.\d+, by more than 0\.01 of it") as error:
        compress(published(given, tmp_path), method="distill", student=student)
    assert error.value.key == "tolerance"


def test_tradeoff__says_bytes_and_metrics_per_split_of_every_form(tmp_path: Path) -> None:
    given = train(stage_for("binary", **LONG), PEOPLE)
    found = compress(published(given, tmp_path), method="prune_trees", tolerance=0.05)
    forms = found.tradeoff.select("method", "form", "bytes", "chosen").unique(maintain_order=True)
    assert forms.row(0) == ("as given", "as given", len(given.model), False)
    assert forms["bytes"].is_sorted(descending=True)
    assert forms.filter("chosen")["bytes"].to_list() == [len(found.files["small.ubj"])]

    def metrics(rows: pl.DataFrame) -> dict[str, dict[str, float]]:
        return {split: {name: value for *_, name, value in part.iter_rows()} for (split,), part in rows.group_by("split")}

    columns = ["split", "metric", "value"]
    assert metrics(found.tradeoff.filter(pl.col("method") == "as given").select(columns)) == given.metrics
    assert metrics(found.tradeoff.filter("chosen").select(columns)) == found.metrics


def test_compress__judges_by_the_weights_of_rows_where_the_model_was_trained_with_some(tmp_path: Path) -> None:
    rows = PEOPLE.with_columns(heft=pl.col("whole") / 2)
    given = train(stage_for("binary", **LONG, weight="heft"), rows)
    found = compress(published(given, tmp_path), rows, method="prune_trees", weight="heft")
    measured = found.tradeoff.filter(pl.col("method") == "as given", pl.col("split") == "validation")
    assert dict(measured.select("metric", "value").iter_rows()) == given.metrics["validation"]
    assert found.predictions.columns == ["id", "split", "binary", "prediction"]
    with pytest.raises(DataError, match="and weights are numbers of 0 or more"):
        compress(published(given, tmp_path), rows.with_columns(heft=-1), method="prune_trees", weight="heft")


def test_compress__judges_quantiles_by_their_pinball_loss(tmp_path: Path) -> None:
    given = train(stage_for("quantile", **{**LONG, "target": "regression", "quantiles": (0.1, 0.9)}), PEOPLE)
    found = compress(published(given, tmp_path), method="prune_trees", tolerance=0.02)
    assert 1 < found.booster.num_boosted_rounds() < 60
    assert found.predictions.columns[-2:] == ["prediction_0.1", "prediction_0.9"]
    assert found.metrics["validation"]["pinball_loss"] <= 1.02 * (given.metrics["validation"]["pinball_loss"] or 0)


def test_compress__of_a_ranking_is_refused(tmp_path: Path) -> None:
    given = train(stage_for("binary", rounds=2), PEOPLE)
    given.description["objective"] = "ranking"
    with pytest.raises(StageError, match="a ranking model has no loss to judge a smaller one by"):
        Compress(model=published(given, tmp_path), method="prune_trees").opened(stage_class)


def test_compress__does_not_depend_on_the_parts_nor_on_the_order_of_rows(tmp_path: Path) -> None:
    model = published(train(stage_for("binary", **LONG), PEOPLE), tmp_path)
    whole = compress(model, method="prune_trees", tolerance=0.05)
    for rows, parts in ((PEOPLE, 7), (PEOPLE.sample(fraction=1, shuffle=True, seed=1), 2)):
        found = compress(model, rows, parts, method="prune_trees", tolerance=0.05)
        assert found.files == whole.files
        assert_frame_equal(found.tradeoff, whole.tradeoff, check_exact=True)
        assert_frame_equal(found.predictions, whole.predictions, check_exact=True)


def test_compress__over_two_workers_is_that_of_one(workers: ClusterSession, tmp_path: Path) -> None:
    model = published(train(stage_for("binary", **LONG), PEOPLE), tmp_path)
    for told in ({"method": "prune_trees"}, {"method": "distill", "tolerance": 2, "student": {"use": "xgboost", "rounds": 5}}):
        expected, found = compress(model, **told), compress(model, PEOPLE, 3, workers, **told)
        assert found.files == expected.files
        assert_frame_equal(found.tradeoff, expected.tradeoff, check_exact=True)


def test_a_model_that_cannot_be_smaller__is_published_as_it_is_with_a_warning(tmp_path: Path) -> None:
    given = train(stage_for("regression", rounds=1, early_stopping_rounds=None), PEOPLE)
    found = compress(published(given, tmp_path), method="prune_trees", tolerance=0)
    assert found.files["small.ubj"] == given.model
    assert found.warnings == ["no smaller form is within tolerance of 0. Allow more."]


def test_a_job__publishes_a_smaller_model_that_score_reads(tmp_path: Path) -> None:
    raw_rows().write_parquet(tmp_path / "rows.parquet", row_group_size=90)
    (tmp_path / "train.yaml").write_text(training_job("high", "binary"))
    (tmp_path / "compress.yaml").write_text("""\
job: compress
seed: 5
results: compressed
inputs: {rows: {format: parquet, path: rows.parquet}}
stages:
  - {use: split, from: rows, as: divided, key: id, train: 0.6, validation: 0.2, test: 0.2}
  - {use: compress, from: divided, as: small, model: trained/current/models/model.json, method: prune_trees, tolerance: 0.1}
  - {use: compress, from: divided, as: taught, model: trained/current/models/model.json, method: distill, tolerance: 0.5,
     student: {use: xgboost, rounds: 5}}
outputs: {predictions: {from: small, sort_by: id}, tradeoff: {from: small.tradeoff}, taught: {from: taught, sort_by: id}}
""")
    with inside(tmp_path):
        trained = pipeline.load("train.yaml").run()
        run = pipeline.load("compress.yaml").run()
        for output, model in (("predictions", "small"), ("taught", "taught")):
            told = run.table(output).to_polars()
            scored = run_stage(Score(model=f"compressed/current/models/{model}.json").opened(stage_class), {"rows": raw_rows()})[""]
            assert_frame_equal(scored.sort("id"), told.select("id", "prediction"), check_exact=True)
        page = Path(run.path, "report.html").read_text()
    assert "Smaller model" in page
    assert "A thousand rows took" in page
    assert trained.metrics["model"].keys() == run.metrics["small"].keys()
    assert run.metrics["small"]["validation"]["log_loss"] <= 1.1 * trained.metrics["model"]["validation"]["log_loss"]


class Scorecard(Supervised, name="scorecard", version=1):
    """A model whose file is npz: weights [features, columns] of two classes' odds, and where they begin."""

    suffix = "npz"

    @classmethod
    def predictor(cls, _description: Mapping[str, Any], content: bytes, _backend: Backend) -> Predictor:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return Odds(file["weights"], file["start"])


@dataclass(frozen=True)
class Odds:
    weights: Any
    start: Any

    def predict(self, features: Any) -> Any:
        odds = np.nan_to_num(features) @ self.weights + self.start
        return 1 / (1 + np.exp(odds[:, 1] - odds[:, 0]))


def scorecard(folder: Path, weights: Any) -> tuple[str, Callable[[str], type[Stage]]]:
    """Such a model, published, and where its stage is found."""
    given = train(stage_for("binary", rounds=2), PEOPLE)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, weights=weights, start=np.array([-1.5, 0.0]))
    (folder / "card.npz").write_bytes(file.getvalue())
    (folder / "card.json").write_text(json.dumps({**given.description, "use": "scorecard", "model": "card.npz"}))
    return str(folder / "card.json"), lambda name: Scorecard if name == "scorecard" else stage_class(name)


WEIGHTS = np.array([[1.2, -0.9], [-0.6, 0.4], [1e-4, 0], [4000, -3000]]) / [[1], [1], [1], [1e5]]


def test_quantize__has_weights_in_eight_bits_that_predict_nearly_the_same(tmp_path: Path) -> None:
    model, found_by = scorecard(tmp_path, WEIGHTS)
    found = compress(model, stages=found_by, method="quantize")
    with np.load(io.BytesIO(found.files["small.npz"]), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert {name: str(array.dtype) for name, array in arrays.items()} == {
        "weights": "int8",
        "weights:scales": "float32",
        "start": "float64",
    }
    np.testing.assert_array_equal(np.abs(arrays["weights"]).max(axis=1), [127, 127, 127, 127])
    restored = arrays["weights"] * arrays["weights:scales"]
    assert (np.abs(restored - WEIGHTS) <= np.abs(WEIGHTS).max(axis=1, keepdims=True) * (0.5 / 127 + 1e-6)).all()
    expected = Odds(restored, arrays["start"]).predict(numbers(PEOPLE))
    np.testing.assert_allclose(found.predicted, expected, rtol=1e-5)
    small = found.saved(tmp_path)
    scored = run_stage(Score(model=small).opened(found_by), {"rows": PEOPLE})[""]
    assert_frame_equal(scored, found.predictions.select(scored.columns), check_exact=True)
    with pytest.raises(StageError, match="this model of scorecard is made smaller by distill"):
        Compress(model=small, method="quantize").opened(found_by)
    taught = compress(small, stages=found_by, method="distill", tolerance=5, student={"use": "xgboost", "rounds": 3})
    assert_frame_equal(
        run_stage(Score(model=taught.saved(tmp_path)).opened(found_by), {"rows": PEOPLE})[""], taught.predictions[["id", "prediction"]]
    )


def test_quantize__that_loses_too_much_is_not_published(tmp_path: Path) -> None:
    model, found_by = scorecard(tmp_path, WEIGHTS @ [[1, 1.01], [1, 1]])  # the small difference of large weights
    with pytest.raises(DataError, match="the loss on validation rows goes from"):
        compress(model, stages=found_by, method="quantize", tolerance=0)


def test_quantize__needs_a_matrix_of_weights() -> None:
    with pytest.raises(DataError, match="the model has no matrix of weights"):
        quantized(scorecard_file(np.array([1.0, 2.0])), "npz")
    with pytest.raises(InputError, match="this is no npz file"):
        quantized(b"none", "npz")


def scorecard_file(weights: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, weights=weights)
    return file.getvalue()


REFUSED = [
    ({"method": "distill"}, "distill, and no other method, has a student"),
    ({"method": "prune_trees", "student": {"use": "xgboost"}}, "distill, and no other method, has a student"),
    ({"method": "distill", "student": {"rounds": 5}}, "say which stage learns"),
    ({"method": "distill", "student": {"use": "filter"}}, "filter learns no target"),
    ({"method": "distill", "student": {"use": "xgboost", "target": "x"}}, r"student\.target: it is the larger model's"),
    ({"method": "distill", "student": {"use": "xgboost", "rounds": 0}}, r"student\.rounds: .*greater than or equal to 1"),
    ({"method": "prune_trees", "split": "part"}, "no column 'part'"),
]


@pytest.mark.parametrize(("told", "said"), REFUSED, ids=range(len(REFUSED)))
def test_compress__refuses_before_a_run(told: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        plan_stage(Compress.model_validate({"model": str(KEPT), **told}).opened(stage_class), {"rows": ROWS})


def test_distill__of_several_columns_of_predictions_is_refused(tmp_path: Path) -> None:
    model = published(train(stage_for("multiclass", **LONG), PEOPLE), tmp_path)
    with pytest.raises(StageError, match="a student learns one number, and the model gives 3"):
        Compress(model=model, method="distill", student={"use": "xgboost"}).opened(stage_class)


def test_compress__of_a_model_that_has_no_such_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_class("xgboost"), "smaller", ("prune_trees",))
    with pytest.raises(StageError, match="this model of xgboost is made smaller by prune_trees, distill"):
        Compress(model=str(KEPT), method="prune_leaves").opened(stage_class)


def test_compress__needs_validation_rows() -> None:
    with pytest.raises(DataError, match="there is no validation row with a 'high' to judge by"):
        run_stage(EXAMPLES[0].stage, {"rows": ROWS.with_columns(split=pl.lit("train"))})


def test_fewer_rounds__at_the_top_is_the_model() -> None:
    given = train(stage_for("binary", **LONG), PEOPLE)
    ladder = fewer_rounds(given.model)
    assert (ladder.top, ladder.at(60).content) == (60, given.model)


@pytest.mark.parametrize("top", [1, 2, 7, 12, 13, 200])
def test_lowest__is_the_first_step_that_fits_where_all_above_do(top: int) -> None:
    for first in range(1, top + 1):
        assert lowest(top, partial(le, first)) == first
    assert lowest(top, lambda _step: False) == top
