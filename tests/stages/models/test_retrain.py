"""retrain: trains where the signs say so, takes the better model, and what it publishes scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, JobError, RefusedError
from pipeline.registry import stage_class
from pipeline.results.champion import promote
from pipeline.results.published import Run
from pipeline.stages.models.retrain import Retrain
from pipeline.stages.models.xgboost import Xgboost
from pipeline.testing.examples import StageExample
from tests.small import inside
from tests.stages.models.test_score import KEPT, raw_rows


def rows(turned: float, seed: int = 1, count: int = 900) -> pl.DataFrame:
    """Rows whose target depends on `a`, or with `turned` on its opposite; `a` has moved with it."""
    random = np.random.default_rng(seed)
    a, b = random.normal(2 * turned, 1, count), random.normal(size=count)
    level = (a - 2 * turned) * (1 - 2 * turned) + 0.3 * b + 0.4 * random.normal(size=count)
    return pl.DataFrame({"id": np.arange(count), "a": a, "b": b, "y": (level > 0).astype(np.int8)})


TRAIN = """\
job: risk
results: risk
inputs: {rows: {format: parquet, path: old.parquet}}
stages:
  - {use: split, from: rows, as: divided, key: id}
  - {use: xgboost, from: divided, as: model, key: id, target: y, objective: binary, rounds: 15}
outputs: {predictions: {from: model}}
"""
RETRAIN = """\
job: again
results: risk
inputs: {rows: {format: parquet, path: new.parquet, parts: 3}, old: {format: parquet, path: old.parquet}}
stages:
  - {use: score, from: rows, as: scores, model: risk/champion/models/model.json}
  - {use: drift, from: {rows: rows, reference: old}, as: moved, exclude: [id, y]}
  - {use: split, from: rows, as: divided, key: id}
  - use: retrain
    from: {rows: divided, predictions: scores, signs: moved}
    as: model
    champion: risk/champion/models/model.json
    when: psi > 0.25
    metric: auc
    model: {use: xgboost, key: id, target: y, objective: binary, rounds: 15}
outputs: {predictions: {from: model}, comparison: {from: model.comparison}}
"""
SCORE = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: new.parquet}}
stages: [{use: score, from: rows, as: scores, model: risk/current/models/model.json}]
outputs: {scores: {from: scores, sort_by: id}}
"""
EXAMPLES = [
    StageExample(
        Retrain(
            champion=str(KEPT),
            when="psi > 0.25",
            metric="auc",
            model=Xgboost(key="id", target="high", objective="binary", rounds=5, features=("income", "age")),
        ).opened(stage_class),
        {
            "rows": raw_rows(200).with_columns(split=pl.Series(["train", "test"] * 100)),
            "predictions": raw_rows(200).select("id", prediction=pl.col("age") / 100.0),
            "signs": pl.DataFrame({"column": ["age"], "psi": [0.1]}),
        },
        modelled=("prediction", "value"),
        needs="xgboost",
    )
]


def again(folder: Path, new: pl.DataFrame, job: str = RETRAIN) -> Run:
    """The job run on new rows, after the first one was trained on old rows and promoted."""
    rows(0).write_parquet(folder / "old.parquet")
    new.write_parquet(folder / "new.parquet", row_group_size=200)
    (folder / "train.yaml").write_text(TRAIN)
    (folder / "again.yaml").write_text(job)
    with inside(folder):
        pipeline.load("train.yaml").run()
        promote("risk")
        return pipeline.load("again.yaml").run()


def described(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(run.path) / "models" / "model.json").read_text())
    return found


def test_retrain__keeps_the_champion_where_nothing_moved(tmp_path: Path) -> None:
    run = again(tmp_path, rows(0, seed=2))
    assert run.record["stages"]["model"]["counts"].items() >= {"signs_met": 0, "trained": 0}.items()
    assert run.metrics["model"]["retrain"]["taken"] == "champion"
    models = tmp_path / "risk" / "champion" / "models"
    assert (Path(run.path) / "models" / "model.ubj").read_bytes() == (models / "model.ubj").read_bytes()
    assert described(run)["kept_from"].endswith("models/model.json")
    assert set(run.table("comparison").to_polars()["model"]) == {"champion"}


def test_retrain__takes_the_new_model_where_rows_moved_and_it_is_better(tmp_path: Path) -> None:
    from sklearn.metrics import roc_auc_score

    new = rows(1, seed=2)
    run = again(tmp_path, new)
    told = run.metrics["model"]["retrain"]
    assert (told["taken"], told["signs_met"]) == ("challenger", 1)
    assert told["challenger"] > 0.9 > 0.7 > told["champion"]
    assert "kept_from" not in described(run)
    predictions = run.table("predictions").to_polars().filter(split="test")
    assert roc_auc_score(predictions["y"], predictions["prediction"]) == pytest.approx(told["challenger"], abs=1e-9)
    (tmp_path / "score.yaml").write_text(SCORE)
    with inside(tmp_path):
        scores = pipeline.load("score.yaml").run().table("scores").to_polars()
    assert_frame_equal(scores, run.table("predictions").to_polars().sort("id").select("id", "prediction"))
    compared = run.table("comparison").to_polars()
    assert compared.filter(split="test", metric="auc").select("model", "value").rows() == [
        ("champion", told["champion"]),
        ("challenger", told["challenger"]),
    ]


def test_retrain__keeps_a_champion_that_the_new_model_does_not_beat_by_the_gain(tmp_path: Path) -> None:
    run = again(tmp_path, rows(1, seed=2), RETRAIN.replace("metric: auc", "metric: auc\n    gain: 0.99"))
    told = run.metrics["model"]["retrain"]
    assert told["taken"] == "champion"
    assert told["challenger"] > told["champion"]
    (tmp_path / "score.yaml").write_text(SCORE)
    with inside(tmp_path):
        scores = pipeline.load("score.yaml").run().table("scores").to_polars()
    assert_frame_equal(scores, run.table("predictions").to_polars().sort("id").select("id", "prediction"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("when: psi > 0.25", "when: psy > 0.25", r"again\.yaml:\d+:\d+: stages\.model\.when: .*'psy'"),
        ("target: y, objective", "target: b, objective", "the champion's target is 'y', and the model's is 'b'"),
        ("metric: auc", "metric: rmse", "a binary objective has no rmse"),
        ("model: {use: xgboost, key: id", "model: {use: xgboost, key: nosuch", r"model.*no column 'nosuch'"),
        ("predictions: scores", "predictions: old", "no column 'prediction'"),
        ("champion: risk/champion", "champion: risk/nosuch", "no such file"),
    ],
)
def test_retrain__refuses_by_the_plan(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises((JobError, RefusedError), match=said):
        again(tmp_path, rows(0, seed=2, count=120), RETRAIN.replace(old, new))


def test_retrain__needs_predictions_of_every_row(tmp_path: Path) -> None:
    less = RETRAIN.replace("{use: score, from: rows", "{use: filter, from: rows, as: some, where: id > 3}\n  - {use: score, from: some")
    with pytest.raises(DataError, match=r"has not predicted the row with 'id' 0\. Give score all"):
        again(tmp_path, rows(0, seed=2), less)
