"""score: new rows get what training gave for the same rows, by the published files alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, InputError, RefusedError, StageError
from pipeline.registry import stage_class
from pipeline.stage import Context, Outcome
from pipeline.stages.features.fill_missing import FillMissing
from pipeline.stages.models._learning import described
from pipeline.stages.models._published import read_published
from pipeline.stages.models.score import Score
from pipeline.tables.part import Part
from pipeline.tables.table import Fitted, Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import counts_of, plan_stage, run_parts, run_stage
from tests.small import inside

KEPT = Path(__file__).parents[2] / "data" / "models" / "kept.json"
"""A model that an earlier version published: it must stay readable."""


def raw_rows(rows: int = 400) -> pl.DataFrame:
    """Rows as they come: numbers with gaps, towns of which some are rare, and a target for each objective."""
    random = np.random.default_rng(20261121)
    income, age = random.normal(size=rows), random.integers(20, 80, rows)
    town = np.array(["Aachen", "Bonn", "Celle", "Dresden"])[random.integers(0, 4, rows)]
    level = income + (town == "Bonn") - age / 60 + random.normal(size=rows)
    gaps = pl.Series(random.random(rows) < 0.1)
    frame = pl.DataFrame({"id": np.arange(rows), "income": income, "age": age, "town": town, "level": level})
    return frame.with_columns(
        income=pl.when(gaps).then(None).otherwise("income"),
        town=pl.when(gaps.shift(1)).then(None).otherwise("town"),
        high=(pl.col("level") > 0).cast(pl.Int8),
        third=pl.Series(np.array(["low", "middle", "high"])[np.digitize(level, [-1, 0.5])]),
    )


def training_job(target: str, objective: str, more: str = "", use: str = "xgboost") -> str:
    return f"""\
job: train
seed: 5
results: trained
inputs: {{rows: {{format: parquet, path: rows.parquet}}}}
stages:
  - {{use: split, from: rows, as: divided, key: id, train: 0.6, validation: 0.2, test: 0.2}}
  - {{use: fill_missing, from: divided, as: filled, columns: [income], method: mean, fit_where: "split = 'train'"}}
  - {{use: standardize, from: filled, as: scaled, columns: [income, age], fit_where: "split = 'train'"}}
  - {{use: categorify, from: scaled, as: coded, columns: [town], fit_where: "split = 'train'"}}
  - use: {use}
    from: coded
    as: model
    key: id
    target: {target}
    objective: {objective}
    features: [income, age, town]
    categorical: [town]
    rounds: 30
    early_stopping_rounds: 5
    {more}
outputs: {{predictions: {{from: model}}}}
"""


SCORING = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: new.parquet, parts: 3}}
stages:
  - {use: score, from: rows, as: scores, model: trained/current/models/model.json}
outputs: {scores: {from: scores, sort_by: id}}
"""
CLASSES = "classes: [low, middle, high]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows and a model of two classes that was published."""
    made = tmp_path_factory.mktemp("models")
    raw_rows().write_parquet(made / "rows.parquet", row_group_size=90)
    raw_rows().drop("level", "high", "third").write_parquet(made / "new.parquet", row_group_size=70)
    (made / "train.yaml").write_text(training_job("high", "binary"))
    (made / "score.yaml").write_text(SCORING)
    with inside(made):
        pipeline.load("train.yaml").run()
    return made


def model_of(folder: Path) -> str:
    return str(folder / "trained" / "current" / "models" / "model.json")


EXAMPLES = [
    StageExample(
        Score(model=str(KEPT), keep=("id", "town")).opened(stage_class),
        {"rows": raw_rows(60).drop("level", "high", "third")},
        modelled=("prediction",),
        needs="xgboost",
    )
]


COMMON = [("high", "binary", ""), ("level", "regression", ""), ("third", "multiclass", CLASSES)]


@pytest.mark.parametrize(
    ("target", "objective", "more", "use"),
    [
        *((*each, "xgboost") for each in COMMON),
        ("level", "quantile", "quantiles: [0.1, 0.9]", "xgboost"),
        *((*each, "linear") for each in COMMON),
    ],
)
def test_score__of_the_rows_of_training_is_what_was_published(target: str, objective: str, more: str, use: str, tmp_path: Path) -> None:
    raw_rows().write_parquet(tmp_path / "rows.parquet", row_group_size=90)
    raw_rows().drop("level", "high", "third").write_parquet(tmp_path / "new.parquet", row_group_size=70)
    (tmp_path / "train.yaml").write_text(training_job(target, objective, more, use))
    (tmp_path / "score.yaml").write_text(SCORING)
    with inside(tmp_path):
        trained = pipeline.load("train.yaml").run().table("predictions").to_polars()
        found = pipeline.load("score.yaml").run().table("scores").to_polars()
    assert found.columns == ["id", *(name for name in trained.columns if name.startswith("prediction"))]
    assert_frame_equal(found, trained.sort("id").select(found.columns), check_exact=True)
    model = str(tmp_path / "trained" / "current" / "models" / "model.json")
    assert counts_of(Score(model=model).opened(stage_class), {"rows": raw_rows()}) == {"rows_scored": 400}


def test_score__does_not_depend_on_the_parts_nor_on_the_order_of_rows(folder: Path) -> None:
    stage, rows = Score(model=model_of(folder)).opened(stage_class), raw_rows()
    whole = run_stage(stage, {"rows": rows})[""]
    for parts in (2, 7):
        assert_frame_equal(run_stage(stage, {"rows": rows}, parts)[""], whole, check_exact=True)
    assert_frame_equal(run_stage(stage, {"rows": rows.reverse()})[""], whole.reverse(), check_exact=True)
    assert run_stage(stage, {"rows": rows.clear()})[""].schema == whole.schema


def test_score__repeats_only_the_stages_that_are_named(folder: Path) -> None:
    with inside(folder):
        trained = pipeline.load("train.yaml")
    learned = read_published(model_of(folder), stage_class)
    prepared = raw_rows().lazy()
    for step in learned.steps:
        prepared = step.apply(prepared)
    assert trained.job.stages
    whole = run_stage(Score(model=model_of(folder)).opened(stage_class), {"rows": raw_rows()})[""]
    found = run_stage(Score(model=model_of(folder), fitted=()).opened(stage_class), {"rows": prepared.collect()})[""]
    assert_frame_equal(found, whole, check_exact=True)
    with pytest.raises(StageError, match=r"behind no stage 'skaled'.*'scaled'"):
        Score(model=model_of(folder), fitted=("skaled",)).opened(stage_class)


def test_score__leaves_kept_columns_as_they_were_given(folder: Path) -> None:
    found = run_stage(Score(model=model_of(folder), keep=("age", "town")).opened(stage_class), {"rows": raw_rows()})[""]
    assert_frame_equal(found.select("age", "town"), raw_rows().select("age", "town"))
    alone = run_stage(Score(model=model_of(folder), keep=()).opened(stage_class), {"rows": raw_rows()})[""]
    assert_frame_equal(alone, found.select("prediction"), check_exact=True)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (raw_rows().drop("age"), "no column 'age'"),
        (raw_rows().drop("id"), "no column 'id'"),
        (raw_rows().with_columns(town=pl.lit(1.5)), "column 'town' is Float64, and categories are text"),
    ],
    ids=["column", "key", "type"],
)
def test_score__refuses_other_columns_and_types_before_a_run(rows: pl.DataFrame, said: str, folder: Path) -> None:
    with pytest.raises(StageError, match=said):
        plan_stage(Score(model=model_of(folder)).opened(stage_class), {"rows": rows})


def test_score__refuses_features_of_another_type_and_codes_that_training_never_saw(folder: Path) -> None:
    prepared = raw_rows().lazy()
    for step in read_published(model_of(folder), stage_class).steps:
        prepared = step.apply(prepared)
    rows, stage = prepared.collect(), Score(model=model_of(folder), fitted=()).opened(stage_class)
    with pytest.raises(StageError, match="column 'town' is Int64, and was Int32 in training"):
        plan_stage(stage, {"rows": rows.cast({"town": pl.Int64})})
    with pytest.raises(DataError, match="'town' has the code 9, and training saw none above 3"):
        run_stage(stage, {"rows": rows.with_columns(town=pl.lit(9, pl.Int32))})
    with pytest.raises(DataError, match="feature 'income' has infinite values"):
        run_stage(stage, {"rows": rows.with_columns(income=pl.lit(float("inf")))})


def test_score__of_a_file_that_describes_no_model_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "no.json").write_text("[1]")
    (tmp_path / "torn.json").write_text('{"model":')
    shutil.copy(model_of(folder), tmp_path / "alone.json")
    for name, said in {
        "none.json": "no such file. Give the JSON file of a published model",
        "no.json": "describes no model that can score",
        "torn.json": "this is no description of a model",
        "alone.json": "A model is two files",
    }.items():
        with pytest.raises(InputError, match=said):
            Score(model=str(tmp_path / name)).opened(stage_class)


def test_score__of_a_model_behind_a_stage_that_has_changed_is_refused(tmp_path: Path, folder: Path) -> None:
    told = json.loads(Path(model_of(folder)).read_text())
    told["fitted"][0]["version"] = 0
    (tmp_path / "old.json").write_text(json.dumps(told))
    shutil.copy(Path(model_of(folder)).with_suffix(".ubj"), tmp_path / told["model"])
    with pytest.raises(InputError, match=r"'filled' \(fill_missing\), which gives other answers since \(version 0 then"):
        Score(model=str(tmp_path / "old.json")).opened(stage_class)


def test_a_job__names_the_line_of_a_model_that_is_not_there_and_of_one_that_changed_under_it(folder: Path) -> None:
    with inside(folder):
        (folder / "other.yaml").write_text(SCORING.replace("model.json", "modell.json"))
        with pytest.raises(RefusedError, match=r"other\.yaml:5:.*stages\.scores\.model: .*no such file"):
            pipeline.load("other.yaml").plan()
        job = pipeline.load("score.yaml")
        first, second = (job.plan().fingerprints["scores"] for _ in range(2))
        assert first == second
        pipeline.load("train.yaml", stages__model__rounds=3).run()
        assert job.plan().fingerprints["scores"] != first


def test_a_model_that_is_written_anew_under_a_run__fails_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Score.run

    def late(stage: Score, tables: Mapping[str, Table], context: Context) -> Outcome:
        Path(stage.files()[1]).touch()
        return run(stage, tables, context)

    monkeypatch.setattr(Score, "run", late)
    with inside(folder), pytest.raises(DataError, match=r"model\.ubj: was written anew since the job was planned"):
        pipeline.load("score.yaml").run()


VALUES = [
    (pl.Date(), date(2020, 2, 29)),
    (pl.Datetime("ns", "Europe/Berlin"), datetime(2020, 7, 1, 12, tzinfo=UTC)),
    (pl.Decimal(38, 4), Decimal("12345678901234567890.1234")),
    (pl.Int64(), 2**63 - 1),
    (pl.UInt64(), 2**64 - 1),
    (pl.Float64(), 0.1 + 0.2),
    (pl.Boolean(), True),
    (pl.String(), "Zürich"),
]


@pytest.mark.parametrize(("dtype", "value"), VALUES, ids=[str(dtype) for dtype, _ in VALUES])
def test_a_learned_state__is_read_back_as_it_was(dtype: pl.DataType, value: Any, tmp_path: Path, folder: Path) -> None:
    told = json.loads(Path(model_of(folder)).read_text())
    state = pl.DataFrame({"a": pl.Series([value, None], dtype=dtype)})
    (step,) = described([Fitted("before", "fill_missing", FillMissing(columns=("a",), value=1), Part(state))])
    (tmp_path / "m.json").write_text(json.dumps(told | {"fitted": [step]}, default=str))
    shutil.copy(Path(model_of(folder)).with_suffix(".ubj"), tmp_path / told["model"])
    assert_frame_equal(read_published(str(tmp_path / "m.json"), stage_class).steps[0].state, state)


def test_score__of_arrays_takes_the_features_of_training_in_their_order(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    told = {"axis": ["rs1", "rs2"]}
    part = Part(pl.DataFrame({"id": [1, 2, 3]}), {"dosages": np.array([[0, 1], [1, 2], [2, 0]], np.float32)})
    model = _trained_on_arrays(tmp_path, part, told["axis"])
    stage = Score(model=str(model)).opened(stage_class)
    same = pl.DataFrame({"variant_id": ["rs1", "rs2"]})
    found = run_parts(stage, {"rows": [part]}, axes={"dosages": same})[""][0].frame
    assert found.height == 3
    with pytest.raises(DataError, match="number 1 is 'rs2', and was 'rs1' in training"):
        run_parts(stage, {"rows": [part]}, axes={"dosages": same.reverse()})


def _trained_on_arrays(folder: Path, part: Part, names: list[str]) -> Path:
    import xgboost as xgb

    data = xgb.DMatrix(part.arrays["dosages"], label=[0, 1, 1], feature_names=names)
    xgb.train({"objective": "binary:logistic", "max_depth": 2}, data, 3).save_model(folder / "m.ubj")
    told = {"model": "m.ubj", "objective": "binary", "key": "id", "classes": [], "features": names, "types": {}, "arrays": ["dosages"]}
    (folder / "m.json").write_text(json.dumps(told | {"categorical": [], "codes": {}, "fitted": []}))
    return folder / "m.json"
