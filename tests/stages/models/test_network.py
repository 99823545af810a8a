"""network: the same for any parts and workers, predicted again exactly by score, its history and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.backend import neural
from pipeline.errors import DataError, InputError, PlaceError, StageError
from pipeline.registry import stage_class
from pipeline.stage import Context
from pipeline.stages.models.network import Network
from pipeline.stages.models.score import Score
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, cut, even_sizes, plan_stage, run_parts, run_stage
from tests import example_tables as examples

pytestmark = pytest.mark.long  # JAX compiles its programs

CLASSES = ["low", "middle", "high"]
ROWS = examples.modelled_rows()
TOLD = ROWS.with_columns(told=pl.format("code {} of {}", "code", "group"))
SEEN = ROWS.with_columns(seen=pl.concat_list(*(pl.col("value") * factor for factor in (1, -1, 0.5, 2))))
SEEN_AS, ONE = {"column": "seen", "height": 2, "width": 2}, [{"filters": 3, "pool": 1}]
FEW = {"words": 4, "buckets": 256, "width": 4}
LEARNED: dict[str, Any] = {"key": "id", "features": ["x", "y", "code"], "categorical": ["code"], "layers": [12], "rounds": 6}
TARGETS: dict[str, dict[str, Any]] = {
    "regression": {"target": "value"},
    "binary": {"target": "label", "early_stopping_rounds": 3, "class_weight": "balanced"},
    "multiclass": {"target": "group", "classes": CLASSES},
}


def stage_for(objective: str, **more: Any) -> Network:
    """A small network for a target of ROWS."""
    return Network.model_validate({**LEARNED, "objective": objective, "learning_rate": 0.01, **TARGETS[objective], **more})


def _example(objective: str, *answers: str, rows: pl.DataFrame = ROWS, **more: Any) -> StageExample:
    return StageExample(stage_for(objective, **more), {"rows": rows}, modelled=(*answers, "influence", "value"), needs="jax")


EXAMPLES = [
    _example("regression", "prediction"),
    _example("binary", "prediction"),
    _example("multiclass", *(f"prediction_{name}" for name in CLASSES)),
    _example(
        "multiclass", *(f"prediction_{name}" for name in CLASSES), rows=SEEN, features=["code", "seen"], image=SEEN_AS, convolutions=ONE
    ),
    _example("regression", "prediction", rows=TOLD, features=["x", "told"], text=["told"], ngrams=FEW, categorical=[]),
]


@dataclass(frozen=True)
class Result:
    """All that the stage gave."""

    tables: dict[str, pl.DataFrame]
    model: bytes
    description: dict[str, Any]
    metrics: dict[str, dict[str, float]]
    counts: dict[str, int]

    def published(self, folder: Path) -> Path:
        """The model's two files, written; the path of the description."""
        (folder / "tested.safetensors").write_bytes(self.model)
        (folder / "tested.json").write_text(json.dumps(self.description))
        return folder / "tested.json"


def train(stage: Network, rows: pl.DataFrame = ROWS, sizes: Sequence[int] = (), session: Session | None = None) -> Result:
    """Run the stage on rows cut into parts of those sizes."""
    session = session or Session()
    stage.plan({"rows": Schema(rows.schema)}, Context("tested", SEED, Session()))
    table = Table.of(session, "rows", cut(rows, sizes or [rows.height]), schema=Schema(rows.schema))
    outcome = stage.run({"rows": table}, Context("tested", SEED, session))

    def had(value: Any) -> Any:
        return value.result(120) if session.is_future(value) else value

    tables = {name: concat_parts([had(part) for part in table.futures()]).frame for name, table in outcome.tables.items()}
    files = {name: had(value) for name, value in outcome.files.items()}
    return Result(tables, files["tested.safetensors"], json.loads(files["tested.json"]), had(outcome.metrics), had(outcome.counts))


@pytest.mark.parametrize("objective", TARGETS)
def test_network__is_the_same_for_any_parts_and_order_of_rows(objective: str) -> None:
    stage = stage_for(objective, dropout=0.2)
    expected = train(stage)
    for rows, sizes in ((ROWS, even_sizes(600, 7)), (ROWS.reverse(), [0, 1, 599, 0])):
        found = train(stage, rows, sizes)
        assert (found.model, found.metrics, found.counts) == (expected.model, expected.metrics, expected.counts)
        for name, table in expected.tables.items():
            assert_frame_equal(found.tables[name], table, check_exact=True)


@pytest.mark.parametrize(("features", "parallel"), [(["x", "y"], None), (["code"], {"data": 2})], ids=str)
def test_accumulate__of_numbers_or_of_categories_alone_goes_the_way_of_whole_batches(features: list[str], parallel: Any) -> None:
    alone = {"features": features, "categorical": [name for name in features if name == "code"], "batch_size": 64, "rounds": 2}
    whole = train(stage_for("regression", **alone)).tables[""]
    pieces = train(stage_for("regression", **alone, accumulate=4, parallel=parallel)).tables[""]
    assert_frame_equal(pieces, whole, abs_tol=1e-4)


def test_network__is_the_same_on_workers(workers: ClusterSession) -> None:
    stage = stage_for("binary")
    expected, found = train(stage), train(stage, ROWS, even_sizes(600, 3), workers)
    for name in ("", "history"):
        assert_frame_equal(found.tables[name], expected.tables[name], rel_tol=1e-5)
    assert found.counts == expected.counts


@pytest.mark.parametrize("objective", TARGETS)
def test_score__of_a_network_is_what_training_gave_whatever_rows_stand_beside(objective: str, tmp_path: Path) -> None:
    trained = train(stage_for(objective, layers=[40, 20]))
    score = Score(model=str(trained.published(tmp_path))).opened(stage_class)
    expected = trained.tables[""].drop("split", TARGETS[objective]["target"])
    raw = ROWS.drop("label", "value", "group", "split")
    for parts in (1, 7):
        assert_frame_equal(run_stage(score, {"rows": raw}, parts)[""], expected, check_exact=True)
    some = raw.filter(pl.col("id") % 3 == 0).reverse()
    found = run_stage(score, {"rows": some})[""].sort("id")
    assert_frame_equal(found, expected.filter(pl.col("id") % 3 == 0), check_exact=True)
    assert run_stage(score, {"rows": raw.clear()})[""].schema == expected.schema


def test_network__learns_what_the_rows_say() -> None:
    found = {objective: train(stage_for(objective, rounds=40, layers=[32])) for objective in TARGETS}
    assert found["regression"].metrics["test"]["r2"] > 0.85  # x is missing here and there
    assert found["binary"].metrics["test"]["auc"] > 0.95
    assert found["multiclass"].metrics["test"]["accuracy"] > 0.8
    for result in found.values():
        importance = result.tables["importance"]
        assert importance["feature"].to_list()[:2] == ["x", "y"]
        assert importance["influence"].is_sorted(descending=True)


@pytest.mark.parametrize("objective", TARGETS)
def test_history__has_the_validation_metric_of_every_round_and_the_best_round_is_kept(objective: str) -> None:
    found = train(stage_for(objective, early_stopping_rounds=2, rounds=60, learning_rate=0.05))
    history, metric = found.tables["history"], "rmse" if objective == "regression" else "log_loss"
    watched = history.filter(pl.col("split") == "validation").sort("round")
    best = int(watched["value"].arg_min() or 0)
    assert found.counts["rounds_used"] == found.description["rounds_used"] == best + 1
    assert watched.height == best + 3 < 60
    assert set(history["metric"]) == {metric}
    assert found.metrics["validation"][metric] == watched["value"][best]
    train_curve = history.filter(pl.col("split") == "train")["value"].to_list()
    assert train_curve[-1] < train_curve[0]


def test_history__of_the_training_rows_is_their_loss_as_they_were_learned_from() -> None:
    whole = stage_for("regression", batch_size=1_000, learning_rate=1e-9, dropout=0, rounds=1)
    found = train(whole)
    assert found.tables["history"].filter(pl.col("split") == "train")["value"][0] == pytest.approx(found.metrics["train"]["rmse"], rel=1e-5)
    alone = train(stage_for("regression"), ROWS.with_columns(split=pl.lit("train")))
    assert set(alone.tables["history"]["split"]) == {"train"}
    assert alone.counts["rounds_used"] == 6


def test_network__takes_missing_numbers_as_their_mean_and_counts_them() -> None:
    found, missing = train(stage_for("regression")), int(ROWS["x"].null_count())
    assert found.counts["missing_values"] == missing > 0
    known = ROWS.filter(pl.col("split") == "train")["x"].drop_nulls().cast(pl.Float32)
    filled = ROWS.with_columns(pl.col("x").fill_null(float(known.to_numpy().mean(dtype=np.float64))))
    others = train(stage_for("regression"), filled).tables[""]["prediction"].to_numpy()
    assert np.corrcoef(others, found.tables[""]["prediction"].to_numpy())[0, 1] > 0.999
    empty = ROWS.with_columns(x=pl.lit(None, pl.Float64), y=pl.lit(3.0))
    assert np.isfinite(train(stage_for("regression"), empty).tables[""]["prediction"].to_numpy()).all()


def test_network__a_category_that_no_training_row_has_adds_nothing() -> None:
    rows = ROWS.with_columns(code=pl.when(pl.col("split") == "test").then(pl.lit(9, pl.Int32)).otherwise("code"))
    gone = rows.with_columns(code=pl.when(pl.col("split") != "test").then("code"))
    unseen, missing = train(stage_for("binary", embedding=3), rows), train(stage_for("binary", embedding=3), gone)
    at = pl.col("split") == "test"
    assert_frame_equal(unseen.tables[""].filter(at), missing.tables[""].filter(at), rel_tol=1e-5)
    some = ROWS.with_columns(code=pl.when(pl.col("id") % 5 > 0).then("code"))
    assert train(stage_for("binary"), some).metrics["test"]["auc"] > 0.7


def test_network__takes_dosages_beside_columns() -> None:
    dosages = np.random.default_rng(2).integers(0, 3, (600, 4)).astype(np.float32)
    part = Part(ROWS.with_columns(label=pl.Series((dosages[:, 1] == 2).astype(int))), {"dosages": dosages})
    axes = {"dosages": pl.DataFrame({"variant_id": ["rs1", "rs2", "rs3", "rs4"]})}
    stage = stage_for("binary", rounds=20, early_stopping_rounds=None)
    found = run_parts(stage, {"rows": [part]}, axes=axes)
    assert found["importance"][0].frame["feature"][0] == "rs2"


def test_balanced_classes__move_the_prediction_of_the_rarer_one() -> None:
    rows = ROWS.with_columns(label=(pl.col("value") > 2.5).cast(pl.Int8))
    found = [train(stage_for("binary", class_weight=weight), rows).tables[""]["prediction"] for weight in ("none", "balanced")]
    plain, balanced = (float(predicted.to_numpy().mean()) for predicted in found)
    assert balanced > plain + 0.05


@pytest.mark.parametrize(
    ("more", "rows", "error", "said"),
    [
        ({"parallel": {"data": 3}}, ROWS, StageError, "a batch of 256 rows cannot be cut into 3 equal pieces"),
        ({"parallel": {"model": 5}}, ROWS, StageError, "5 devices cannot have equal shares of a layer of 12"),
        ({"parallel": {"model": 2}, "layers": []}, ROWS, StageError, "2 devices cannot have equal shares of layers: there are none"),
        ({"parallel": {"pipeline": 3}}, ROWS, StageError, "3 devices, and 2 layers, the last one too"),
        (
            {"parallel": {"pipeline": 2, "data": 2, "compress": "int8"}},
            ROWS,
            StageError,
            "gradients are compressed between devices of data, and of nothing else",
        ),
        ({"parallel": {"compress": "int8"}}, ROWS, StageError, "gradients are compressed between devices of data, and of nothing else"),
        (
            {"arithmetic": "float16", "parallel": {"data": 2, "compress": "int8"}},
            ROWS,
            StageError,
            "gradients of float16 are not compressed. Use bfloat16, or leave compress out",
        ),
        ({"batch_size": 10, "accumulate": 4}, ROWS, StageError, "a batch of 10 rows cannot be cut into 4 equal pieces"),
        (
            {"learning_rate": 10.0, "optimizer": "sgd", "clip": None},
            ROWS,
            DataError,
            "training does not hold together. Lower learning_rate",
        ),
        ({}, ROWS.with_columns(code=-pl.col("code")), DataError, "'code' has the code -[123]: a category's codes are 0 to 999,999"),
        ({}, ROWS.with_columns(x=1 / (pl.col("id") * 0.0)), DataError, "feature 'x' has infinite values"),
        ({"features": ["x", "group"], "categorical": []}, ROWS, StageError, "feature 'group' is String"),
    ],
)
def test_network__refuses_what_cannot_be_learned(more: dict[str, Any], rows: pl.DataFrame, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        train(stage_for("regression", **more), rows)


def test_network__a_missing_library_is_named_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "find_spec", lambda name: None if name == "optax" else True)
    with pytest.raises(PlaceError, match=r"optax is not installed. Install it with: pip install '.\[neural\]'"):
        plan_stage(stage_for("binary"), {"rows": ROWS})


def test_score__of_a_network_file_that_is_torn_is_refused(tmp_path: Path) -> None:
    path = train(stage_for("binary", rounds=1)).published(tmp_path)
    path.with_suffix(".safetensors").write_bytes(b"torn")
    score = Score(model=str(path)).opened(stage_class)
    with pytest.raises(InputError, match=r"the network's file cannot be read .*Train the model again"):
        run_stage(score, {"rows": ROWS})


FLOAT16 = [
    pytest.param({}, id="one"),
    pytest.param({"parallel": {"data": 4}}, id="data", marks=pytest.mark.soak),
    pytest.param({"parallel": {"asynchronous": 2}}, id="asynchronous", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("more", FLOAT16)
def test_float16__ends_where_float32_does_and_counts_the_steps_that_it_skipped(more: dict[str, Any]) -> None:
    given = {"dropout": 0.0, "batch_size": 64, "rounds": 12}
    exact, found = train(stage_for("binary", **given)), train(stage_for("binary", arithmetic="float16", **given, **more))
    assert found.metrics["validation"]["log_loss"] == pytest.approx(exact.metrics["validation"]["log_loss"], rel=0.01)
    assert 0 <= found.counts["skipped_steps"] < 5


WAYS = [{"data": 8}, {"data": 2, "model": 4}, {"pipeline": 3}, {"data": 2, "pipeline": 3}]


@pytest.mark.parametrize(
    "parallel", [pytest.param(way, id=" and ".join(way), marks=pytest.mark.soak if len(way) > 1 else ()) for way in WAYS]
)
def test_parallel__over_devices_has_the_loss_curve_of_one_and_says_what_it_costs(parallel: dict[str, int]) -> None:
    given = {"dropout": 0.2, "batch_size": 64, "rounds": 4, "layers": [16, 8], "accumulate": 2}
    one, several = train(stage_for("binary", **given)), train(stage_for("binary", parallel=parallel, **given))
    assert_frame_equal(several.tables["history"], one.tables["history"], rel_tol=1e-4)
    assert_frame_equal(several.tables[""], one.tables[""], rel_tol=1e-3, abs_tol=1e-4)
    cost = several.metrics.pop("parallel")
    assert several.metrics["test"] == pytest.approx(one.metrics["test"], rel=1e-2)
    assert set(cost) == {"devices", "bytes_sent", "step_ms", "compute_ms", "communication_ms"}
    assert cost["devices"] == np.prod([*parallel.values()])
    assert cost["bytes_sent"] > 0


@pytest.mark.soak
def test_parallel__with_compressed_gradients_comes_as_far() -> None:
    given = {"dropout": 0.0, "batch_size": 64, "rounds": 12}
    one = train(stage_for("binary", **given))
    for more in ({"compress": "int8"}, {"compress": "top_k", "share": 0.2}):
        found = train(stage_for("binary", parallel={"data": 4, **more}, **given))
        assert found.metrics["test"]["log_loss"] == pytest.approx(one.metrics["test"]["log_loss"], rel=0.15)


LINEAR = [{"data": 4}, {"data": 4, "compress": "int8"}, {"asynchronous": 4}, {"asynchronous": 4, "staleness": 1}]


@pytest.mark.soak
def test_a_network_without_layers__is_a_linear_model_and_trains_over_devices_as_over_one() -> None:
    given = {"layers": [], "batch_size": 64, "rounds": 20, "embedding": 2}
    one = train(stage_for("regression", **given))
    table = one.tables[""].join(ROWS.select("id", "x", "y", "code"), on="id").drop_nulls().filter(code=1)
    design = np.column_stack([np.ones(table.height), table["x"], table["y"]])
    _, residuals, *_ = np.linalg.lstsq(design, table["prediction"].to_numpy(), rcond=None)
    assert residuals[0] < 1e-6 * table.height
    for way in LINEAR:
        found = train(stage_for("regression", parallel=way, **given))
        bound = 1e-4 if way in ({"data": 4}, {"asynchronous": 4}) else 0.1
        assert_frame_equal(found.tables["history"], one.tables["history"], rel_tol=bound)


@pytest.mark.parametrize(("way", "said"), [("model", "equal shares of layers: there are none"), ("pipeline", "2 devices, and 1 layers")])
def test_a_network_without_layers__has_none_to_share(way: str, said: str) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(stage_for("regression", layers=[], parallel={way: 2}), {"rows": ROWS})
