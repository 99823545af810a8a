"""xgboost in one task: what it gives equals native XGBoost on the same rows, for any parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import xgboost as xgb

from pipeline.backend import boosting
from pipeline.errors import DataError, PlaceError, StageError
from pipeline.stage import Context
from pipeline.stages.features.categorify import Categorify
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.models import _training_rows
from pipeline.stages.models.xgboost import Xgboost
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, Data, even_sizes, height, plan_stage, shuffled
from tests import example_tables as examples
from tests.harness import genotypes
from tests.stages.models.training import CLASSES, FEATURES, PEOPLE, labels, native, numbers, stage_for, train


def _example(*answers: str, **parameters: Any) -> StageExample:
    learned = {"key": "id", "features": ["x", "y", "code"], "categorical": ["code"], "rounds": 20, "max_depth": 3}
    rows = {"rows": examples.modelled_rows()}
    return StageExample(Xgboost(**{**learned, **parameters}), rows, modelled=(*answers, *examples.IMPORTANCE, "value"), needs="xgboost")


EXAMPLES = [
    _example("prediction", target="value", objective="regression"),
    _example("prediction", target="label", objective="binary", early_stopping_rounds=5, class_weight="balanced"),
    _example(
        "prediction_low",
        "prediction_middle",
        "prediction_high",
        target="group",
        objective="multiclass",
        classes=["low", "middle", "high"],
    ),
    _example(
        *("prediction_0.1", "prediction_0.9", "x", "y", "code", "bias", "mean_abs_shap"),
        target="value",
        objective="quantile",
        quantiles=[0.1, 0.9],
        weight="label",
        explain=True,
    ),
    _example("prediction_score", target="label", objective="ranking", group="code", split=None, features=["x", "y"], categorical=[]),
]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_xgboost__predicts_what_native_xgboost_does(objective: str) -> None:
    found = train(stage_for(objective, subsample=0.8, colsample=0.75, reg_lambda=2, min_child_weight=3), PEOPLE)
    more = {"subsample": 0.8, "colsample_bytree": 0.75, "lambda": 2, "min_child_weight": 3}
    booster, expected = native(PEOPLE, objective, **more)
    assert 1 < booster.best_iteration + 1 < booster.num_boosted_rounds() < 80
    assert np.array_equal(found.predicted, expected)
    assert found.booster.num_boosted_rounds() == found.counts["trees_used"] == found.description["trees_used"] == booster.best_iteration + 1
    assert found.predictions.select("id", "split", objective).equals(PEOPLE.select("id", "split", objective))
    columns = [f"prediction_{name}" for name in CLASSES] if objective == "multiclass" else ["prediction"]
    assert found.predictions.columns == ["id", "split", objective, *columns]
    assert set(found.predictions.select(columns).dtypes) == {pl.Float32}
    assert found.counts["features"] == 4
    assert {name: found.counts[f"rows_{name}"] for name in ("train", "validation", "test")} == dict(PEOPLE["split"].value_counts().rows())


def test_xgboost__without_early_stopping_uses_all_rounds() -> None:
    found = train(stage_for("binary", early_stopping_rounds=None, rounds=7), PEOPLE)
    assert found.booster.num_boosted_rounds() == found.counts["trees_used"] == 7
    none = train(stage_for("binary", early_stopping_rounds=None, rounds=7), PEOPLE.filter(pl.col("split") != "validation"))
    assert none.model == found.model
    assert set(none.metrics) == {"train", "test"}


def test_xgboost__metrics_fit_the_objective_and_equal_scikit_learns() -> None:
    from sklearn import metrics as reference

    for objective in ("regression", "binary", "multiclass"):
        found = train(stage_for(objective), PEOPLE)
        for split in ("train", "validation", "test"):
            at = ((PEOPLE["split"] == split) & PEOPLE[objective].is_not_null()).to_numpy()
            truth, score = labels(PEOPLE.filter(at), objective), found.predicted[at]
            expected = {
                "regression": lambda y, p: {"rmse": reference.root_mean_squared_error(y, p), "r2": reference.r2_score(y, p)},
                "binary": lambda y, p: {
                    "auc": reference.roc_auc_score(y, p),
                    "log_loss": reference.log_loss(y, p),
                    "accuracy": reference.accuracy_score(y, p >= 0.5),
                },
                "multiclass": lambda y, p: {
                    "log_loss": reference.log_loss(y, p.astype(float) / p.astype(float).sum(axis=1, keepdims=True)),
                    "accuracy": reference.accuracy_score(y, p.argmax(axis=1)),
                },
            }[objective](truth, score)
            assert found.metrics[split] == pytest.approx(expected, rel=1e-5)


def test_xgboost__a_metric_that_cannot_be_is_null_and_a_split_without_target_has_none() -> None:
    alike = PEOPLE.with_columns(pl.when(pl.col("split") == "test").then(0).otherwise("binary").alias("binary"))
    assert train(stage_for("binary"), alike).metrics["test"]["auc"] is None
    unknown = PEOPLE.with_columns(pl.when(pl.col("split") != "test").then("binary").alias("binary"))
    found = train(stage_for("binary"), unknown)
    assert set(found.metrics) == {"train", "validation"}
    assert found.predicted.shape == (PEOPLE.height,)


def test_xgboost__balanced_classes_equal_scikit_learns_weights() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    for objective in ("binary", "multiclass"):
        seen = labels(PEOPLE.filter((pl.col("split") == "train") & pl.col(objective).is_not_null()), objective)
        weights = compute_class_weight("balanced", classes=np.unique(seen), y=seen)
        found = train(stage_for(objective, class_weight="balanced"), PEOPLE)
        assert np.array_equal(found.predicted, native(PEOPLE, objective, weights=lambda y, w=weights: w[y.astype(int)])[1])
        assert not np.array_equal(found.predicted, train(stage_for(objective), PEOPLE).predicted)


def test_xgboost__categorical_features_are_split_by_their_categories() -> None:
    found = train(stage_for("binary", categorical=["group"]), PEOPLE)
    booster, expected = native(PEOPLE, "binary", types=["q", "q", "c", "q"])
    assert np.array_equal(found.predicted, expected)
    assert found.booster.feature_types == ["q", "q", "c", "q"]
    assert "group:{" in "".join(found.booster.get_dump())
    assert found.description["categorical"] == ["group"]
    assert np.isfinite(found.predicted[PEOPLE["group"].is_null().to_numpy()]).all()
    assert booster.best_iteration > 0


def test_xgboost__takes_nan_null_and_any_numeric_type_alike() -> None:
    expected = train(stage_for("binary"), PEOPLE)
    other = PEOPLE.with_columns(pl.col("a").fill_null(float("nan")), pl.col("group").cast(pl.Float64), pl.col("binary").cast(pl.Boolean))
    assert train(stage_for("binary"), other.with_columns(pl.col("whole").cast(pl.UInt8))).model == expected.model
    floats = PEOPLE.with_columns(pl.col("binary").cast(pl.Float64).fill_null(float("nan")))
    assert train(stage_for("binary"), floats).model == expected.model


def test_xgboost__rows_without_a_target_are_predicted_and_not_trained_on() -> None:
    known = PEOPLE.filter(pl.col("binary").is_not_null())
    found, expected = train(stage_for("binary"), PEOPLE), train(stage_for("binary"), known)
    assert found.model == expected.model
    assert found.metrics == expected.metrics
    assert found.predictions.height == PEOPLE.height > known.height
    assert found.predictions["prediction"].null_count() == 0


def test_xgboost__of_no_split_trains_on_all_rows() -> None:
    found = train(stage_for("regression", split=None, early_stopping_rounds=None, rounds=9), PEOPLE.drop("split"))
    as_train = train(stage_for("regression", early_stopping_rounds=None, rounds=9), PEOPLE.with_columns(split=pl.lit("train")))
    assert found.model == as_train.model
    assert found.predictions.columns == ["id", "regression", "prediction"]
    assert set(found.metrics) == {"train"}


def test_xgboost__rows_of_other_splits_are_predicted_alone() -> None:
    odd = PEOPLE.with_columns(pl.when(pl.col("split") == "test").then(pl.lit("holdout")).otherwise("split").alias("split"))
    found, expected = train(stage_for("binary"), odd), train(stage_for("binary"), PEOPLE)
    assert found.model == expected.model
    assert np.array_equal(found.predicted, expected.predicted)
    assert set(found.metrics) == {"train", "validation"}
    assert train(stage_for("binary"), odd.with_columns(pl.col("split").replace("holdout", None))).model == expected.model


def test_xgboost__features_are_all_but_target_key_split_and_excluded() -> None:
    exclude = ["regression", "multiclass", "b"]
    found = train(stage_for("binary", features=(), exclude=exclude), PEOPLE)
    assert found.description["features"] == found.booster.feature_names == ["a", "group", "whole"]
    assert train(stage_for("binary", features=["whole", "a"]), PEOPLE).description["features"] == ["whole", "a"]


def test_xgboost__dosages_are_features_named_by_their_variants() -> None:
    dosages = np.random.default_rng(2).integers(0, 3, (PEOPLE.height, 3)).astype(np.float32)
    dosages[::9, 1] = np.nan
    binary = ((dosages[:, 2] == 2) | (PEOPLE["a"].fill_null(0).to_numpy() > 1)).astype(int)
    part = Part(PEOPLE.with_columns(binary=pl.Series(binary)), {"dosages": dosages})
    variants = pl.DataFrame({"variant_id": ["rs1", "rs2", "rs3:A:G"]})
    facts: dict[str, Any] = {"axes": {"dosages": Table.of(Session(), "axis", [Part(variants)])}}
    found = train(stage_for("binary"), part, **facts)
    assert np.array_equal(found.predicted, native(part.frame, "binary", np.hstack([numbers(PEOPLE), dosages]))[1])
    assert found.description["features"] == [*FEATURES, "rs1", "rs2", "rs3:A:G"]
    assert found.importance["feature"][0] == "rs3:A:G"
    assert train(stage_for("binary"), part, even_sizes(PEOPLE.height, 7), **facts).model == found.model
    alone = Part(part.frame.select("id", "binary", "split"), part.arrays)
    assert train(stage_for("binary", features=()), alone, **facts).description["features"] == variants["variant_id"].to_list()


def test_xgboost__importance_adds_up_to_the_trees() -> None:
    found = train(stage_for("regression"), PEOPLE)
    trees = pl.from_pandas(found.booster.trees_to_dataframe()).filter(pl.col("Feature") != "Leaf")
    expected = trees.group_by("Feature").agg(gain=pl.col("Gain").mean(), weight=pl.len().cast(pl.Float64), cover=pl.col("Cover").mean())
    rows = {name: (gain, weight, cover) for name, gain, weight, cover in expected.iter_rows()}
    assert found.importance["feature"].sort().to_list() == sorted(FEATURES)
    assert found.importance["gain"].is_sorted(descending=True)
    for name, *values in found.importance.iter_rows():
        assert values == pytest.approx(rows[name], rel=1e-5)
    useless = train(stage_for("binary", features=["a", "constant"]), PEOPLE.with_columns(constant=pl.lit(1)))
    assert useless.importance.row(1) == ("constant", 0.0, 0.0, 0.0)


@pytest.mark.parametrize("sizes", [[300, 300], even_sizes(600, 7), [0, 599, 0, 1]])
def test_xgboost__gives_the_same_bytes_for_any_parts(sizes: list[int]) -> None:
    stage = stage_for("multiclass", subsample=0.7, categorical=["group"], class_weight="balanced")
    expected = train(stage, PEOPLE)
    for data in (PEOPLE, shuffled(PEOPLE)):
        found = train(stage, data, sizes)
        assert found.model == expected.model
        assert found.predictions.equals(expected.predictions)
        assert found.importance.equals(expected.importance)
        assert (found.metrics, found.counts, found.description) == (expected.metrics, expected.counts, expected.description)


def test_xgboost__of_two_processes_gives_the_same_bytes(workers: ClusterSession) -> None:
    expected, found = train(stage_for("binary"), PEOPLE), train(stage_for("binary"), PEOPLE, even_sizes(600, 4), workers)
    assert found.model == expected.model
    assert found.predictions.equals(expected.predictions)


def test_xgboost__batches_of_another_size_give_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    dosages = np.random.default_rng(2).integers(0, 3, (PEOPLE.height, 2)).astype(np.float32)
    facts: dict[str, Any] = {"axes": {"dosages": Table.of(Session(), "axis", [Part(pl.DataFrame({"variant_id": ["v1", "v2"]}))])}}
    whole = train(stage_for("binary"), Part(PEOPLE, {"dosages": dosages}), **facts)
    monkeypatch.setattr(_training_rows, "BATCH_ROWS", 64)
    pieces = train(stage_for("binary"), Part(PEOPLE, {"dosages": dosages}), **facts)
    assert pieces.model == whole.model
    assert pieces.predictions.equals(whole.predictions)


def encoded_people() -> tuple[pl.DataFrame, Table]:
    """Raw rows with texts and gaps, and the table that fill_missing and categorify make of them, learned from the training rows."""
    town = np.array(["Aa", "b b", "ü", "zz"])[np.random.default_rng(4).integers(0, 4, PEOPLE.height)]
    raw = PEOPLE.with_columns(town=pl.Series(town), kind=pl.when(pl.col("whole") < 8).then(pl.col("whole") % 3))
    raw = raw.with_columns(
        pl.when((pl.col("split") == "test") & (pl.col("town") == "ü")).then(pl.lit("new")).otherwise("town").alias("town")
    )
    raw = raw.with_columns(pl.when(pl.col("town") != "ü").then("town").alias("town"))
    table = Table.of(Session(), "raw", [Part(raw)])
    train_rows = "split = 'train'"
    steps = {
        "filled": FillMissing.model_validate({"columns": ["a"], "method": "mean", "fit_where": train_rows}),
        "coded": Categorify.model_validate({"columns": ["town", "kind"], "fit_where": train_rows}),
    }
    for name, step in steps.items():
        table = step.run({"rows": table}, Context(name, SEED, Session())).tables[""]
    return raw, table


def test_xgboost__saved_model_and_description_score_raw_rows_to_the_published_predictions(tmp_path: Path) -> None:
    raw, table = encoded_people()
    features = [*FEATURES, "town", "kind"]
    frame = concat_parts(table.futures()).frame
    found = train(stage_for("binary", features=features, categorical=["town", "kind"]), frame, even_sizes(600, 3), fitted=table.fitted)
    (tmp_path / "model.ubj").write_bytes(found.model)
    (tmp_path / "model.json").write_text(json.dumps(found.description))
    # From here on: the two files and the raw rows alone.
    about, booster = json.loads((tmp_path / "model.json").read_text()), xgb.Booster(model_file=tmp_path / "model.ubj")
    rows: dict[str, list[Any]] = raw.to_dict(as_series=False)
    for step in about["fitted"]:
        state, columns = step["state"], step["parameters"]["columns"]
        for column in columns:
            if step["use"] == "fill_missing":
                rows[column] = [state[column][0] if value is None else value for value in rows[column]]
            else:
                learned = zip(state["column"], state["value"], state["code"], strict=True)
                codes = {value: code for name, value, code in learned if name == column}
                rows[column] = [codes.get(str(value)) for value in rows[column]]
    matrix = np.array([rows[name] for name in about["features"]], dtype=np.float64).T.astype(np.float32)
    types = ["c" if name in about["categorical"] else "q" for name in about["features"]]
    given = xgb.DMatrix(matrix, feature_names=about["features"], feature_types=types, enable_categorical=True)
    assert np.array_equal(booster.predict(given), found.predicted)
    assert [step["use"] for step in about["fitted"]] == ["fill_missing", "categorify"]
    assert about["target"] == "binary"
    assert None in rows["town"]


def with_target(*values: Any) -> pl.DataFrame:
    """The people, with those values of `binary` in turn."""
    return PEOPLE.with_columns(pl.Series("binary", [values[i % len(values)] for i in range(PEOPLE.height)], strict=False))


UNLEARNABLE: dict[str, tuple[Data, dict[str, Any], str]] = {
    "three values": (with_target(0, 1, 2), {}, r"stage tested: 'binary' is not binary, it has values \[0\.0, 1\.0, 2\.0\]"),
    "constant": (with_target(1, None), {}, "'binary' is 1 in every training row; there is nothing to learn"),
    "all missing": (PEOPLE.with_columns(binary=pl.lit(None, pl.Int32)), {}, "no training row has a 'binary'"),
    "no training rows": (PEOPLE.with_columns(split=pl.lit("training")), {}, "no training row has a 'binary'. Is the split column right"),
    "no validation": (PEOPLE.filter(pl.col("split") != "validation"), {}, "early stopping needs validation rows with a 'binary'"),
    "unknown class": (PEOPLE, {"objective": "multiclass", "target": "multiclass", "classes": ["low", "mid", "top"]}, "value 'high', which"),
    "one class": (
        PEOPLE.with_columns(multiclass=pl.lit("mid")),
        {"objective": "multiclass", "target": "multiclass", "classes": CLASSES},
        "'multiclass' is mid in every training row",
    ),
    "infinite target": (
        PEOPLE.with_columns(regression=1 / pl.col("whole")),
        {"objective": "regression", "target": "regression"},
        "'regression' has infinite values",
    ),
    "infinite feature": (PEOPLE.with_columns(a=1 / pl.col("whole")), {}, r"feature 'a' has infinite values \(a division by zero\?\)"),
    "key twice": (PEOPLE.with_columns(id=pl.col("id").replace("p0009", "p0008")), {}, "key 'id' has the value 'p0008' twice"),
    "no key twice": (PEOPLE.with_columns(pl.when(pl.col("whole") > 3).then("id").alias("id")), {}, "key 'id' has the value None twice"),
}


@pytest.mark.parametrize("what", UNLEARNABLE)
def test_xgboost__data_that_cannot_be_learned_from_is_named(what: str) -> None:
    data, given, message = UNLEARNABLE[what]
    with pytest.raises(DataError, match=message):
        train(stage_for(**{"objective": "binary", **given}), data, even_sizes(height(data), 2))


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "text feature": ({"features": ["a", "multiclass"]}, "feature 'multiclass' is String: a model takes numbers. Use categorify"),
    "unknown feature": ({"features": ["a", "grup"]}, "no column 'grup'. Did you mean 'group'?"),
    "unknown target": ({"target": "binari"}, "no column 'binari'. Did you mean 'binary'?"),
    "unknown excluded": ({"exclude": ["zz"]}, "no column 'zz'"),
    "target as feature": ({"features": ["a", "binary"]}, "features names 'binary', which is the target, the key or the split"),
    "feature twice": ({"features": ["a", "a"]}, "features names 'a', .*named twice"),
    "category that is no feature": ({"features": ["a"], "categorical": ["group"]}, "categorical names 'group'"),
    "category with fractions": ({"categorical": ["b"]}, r"categorical names 'b' \(Float64\), and takes features that hold whole numbers"),
    "early stopping, no split": ({"split": None}, "early_stopping_rounds needs a split column"),
    "split of numbers": ({"split": "regression"}, "split 'regression' is Float64: it must say train"),
    "text as binary": ({"target": "multiclass"}, "target 'multiclass' is String; a binary objective needs numbers"),
    "fractions as classes": (
        {"target": "b", "features": ["a"], "objective": "multiclass", "classes": [1, 2, 3]},
        "target 'b' is Float64; cl",
    ),
    "classes of binary": ({"classes": [0, 1]}, "classes: the values of a multi-class target, at least 3"),
    "no classes": (
        {"objective": "multiclass", "target": "multiclass", "classes": ()},
        "classes: the values of a multi-class target, at least 3",
    ),
    "two classes": (
        {"objective": "multiclass", "target": "multiclass", "classes": ["low", "high"]},
        "must be three values or more, each once",
    ),
    "class twice": ({"objective": "multiclass", "target": "whole", "features": ["a"], "classes": [1, "1", 2, 3]}, "each once"),
    "balanced regression": ({"objective": "regression", "target": "regression", "class_weight": "balanced"}, "balanced is for classes"),
    "nothing left": ({"features": ["a"], "exclude": ["a"]}, "there is no feature column left"),
}


@pytest.mark.parametrize("what", MISFITS)
def test_xgboost__parameters_that_do_not_fit_are_refused_by_the_plan(what: str) -> None:
    given, message = MISFITS[what]
    with pytest.raises(StageError, match=message):
        plan_stage(stage_for(**{"objective": "binary", **given}), {"rows": PEOPLE})


def test_xgboost__names_that_xgboost_or_the_predictions_cannot_take_are_refused() -> None:
    with pytest.raises(StageError, match=r"feature 'a\[0\]': XGBoost takes no name with"):
        plan_stage(stage_for("binary", features=["a[0]"]), {"rows": PEOPLE.rename({"a": "a[0]"})})
    with pytest.raises(StageError, match="column 'prediction' has the name of a column of the predictions"):
        plan_stage(stage_for("binary", target="prediction"), {"rows": PEOPLE.rename({"binary": "prediction"})})


def test_xgboost__packed_genotype_calls_are_refused() -> None:
    part, axes = genotypes()
    stage = Xgboost(target="base_pair_location", key="variant_id", objective="regression", split=None, exclude=("chromosome",))
    with pytest.raises(StageError, match=r"packed genotype calls, which are no features\. Use genotype_features"):
        plan_stage(stage, {"rows": part}, axes)


def test_xgboost__a_missing_library_is_named_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "find_spec", lambda name: None if name == "xgboost" else True)
    message = r"xgboost is not installed. Install it with: pip install '.\[cpu\]'"
    with pytest.raises(PlaceError, match=message):
        plan_stage(stage_for("binary", workers="all"), {"rows": PEOPLE})
    with pytest.raises(PlaceError, match=message):
        boosting.import_xgboost()


JOB = """\
job: lean
results: results
report: false
inputs:
  people: {format: parquet, path: people.parquet}
stages:
  - {use: xgboost, from: people, as: model, target: binary, key: id, objective: binary, exclude: [regression, multiclass], rounds: 3}
outputs:
  predictions: {from: model}
"""


@pytest.mark.process
def test_command_line__trains_without_scikit_learn_which_can_be_imported_afterwards(tmp_path: Path) -> None:
    PEOPLE.write_parquet(tmp_path / "people.parquet")
    (tmp_path / "job.yaml").write_text(JOB)
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pipeline.run import main
assert main(["job.yaml", "--quiet"]) == 0
assert "xgboost" in sys.modules and not [name for name in sys.modules if name.partition(".")[0] == "sklearn"]
from sklearn.linear_model import LinearRegression
print(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]).coef_[0].round(6))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2.0"), done.stderr
    assert (tmp_path / "results" / "current" / "models" / "model.ubj").stat().st_size > 0
