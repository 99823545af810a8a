"""score of a published factorization: users get the lists that training gave them, pairs the scores."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import InputError, StageError
from pipeline.registry import stage_class
from pipeline.stages.models.score import Score
from pipeline.testing.examples import Between
from pipeline.testing.stages import counts_of, plan_stage, run_stage
from tests.small import inside
from tests.stages.models.recommending import ROWS

JOB = """\
job: train
seed: 5
results: trained
inputs: {rows: {format: parquet, path: rows.parquet}}
stages:
  - {use: categorify, from: rows, as: coded, columns: [place]}
  - {use: matrix_factorization, from: coded, as: lists, user: user, item: place, weight: stars, factors: 5, rounds: 4, top: 6}
outputs: {lists: {from: lists}, items: {from: lists.items}, history: {from: lists.history}}
"""
SCORING = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: new.parquet, parts: 2}}
stages:
  - {use: score, from: rows, as: scores, model: trained/current/models/lists.json}
outputs: {scores: {from: scores}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with interactions at named places, and a model that was published behind their codes."""
    made = tmp_path_factory.mktemp("models")
    places = ROWS.with_columns(place=pl.concat_str(pl.lit("place "), "item"))
    places.write_parquet(made / "rows.parquet", row_group_size=90)
    (made / "train.yaml").write_text(JOB)
    (made / "score.yaml").write_text(SCORING)
    with inside(made):
        pipeline.load("train.yaml").run()
    return made


def lists_of(folder: Path) -> pl.DataFrame:
    """What training gave."""
    return pl.read_parquet(folder / "trained" / "current" / "lists").sort("user", "rank")


def stage_of(folder: Path, **given: object) -> Score:
    model = str(folder / "trained" / "current" / "models" / "lists.json")
    return Score.model_validate({"model": model, "fitted": [], **given}).opened(stage_class)


def test_score__of_users_gives_the_lists_of_training_in_any_company(folder: Path) -> None:
    trained = lists_of(folder)
    users = trained.select("user").unique(maintain_order=True)
    for rows, parts in ((users, 1), (users.reverse(), 3), (users.filter(pl.col("user") > "u050"), 2), (users.head(1), 1)):
        found = run_stage(stage_of(folder), {"rows": rows}, parts)[""]
        expected = rows.join(trained, on="user", maintain_order="left_right")
        assert_frame_equal(found, expected, check_exact=True)
    found = run_stage(stage_of(folder), {"rows": users}, 2, Between())[""]
    assert_frame_equal(found.sort("user", "rank"), trained, check_exact=True)
    assert run_stage(stage_of(folder), {"rows": users.clear()})[""].schema == trained.schema


def test_score__of_pairs_gives_their_scores_behind_the_stages_of_training(folder: Path) -> None:
    trained = lists_of(folder)
    codes = pl.read_parquet(folder / "rows.parquet").select("item", "place").unique()
    with inside(folder):
        coded = pipeline.load("train.yaml").run().table("items").to_polars()
    assert coded.height == codes.height
    found = run_stage(stage_of(folder), {"rows": trained.select("user", "place")}, 3)[""]
    assert_frame_equal(found, trained.select("user", "place", "score"), check_exact=True)
    taken = pl.read_parquet(folder / "rows.parquet").select("user", "place").unique(maintain_order=True)
    taken.write_parquet(folder / "new.parquet")
    with inside(folder):
        raw = pipeline.load("score.yaml").run().table("scores").to_polars()
    assert raw.columns == ["user", "place", "score"]
    assert raw["score"].null_count() == 0
    assert raw["score"].to_numpy().mean() > trained["score"].to_numpy().mean()  # what was taken is explained as 1


def test_score__of_the_unknown_is_null_and_counted(folder: Path) -> None:
    known = lists_of(folder).head(1)
    users = pl.DataFrame({"user": ["nobody", known["user"][0], None, known["user"][0]], "town": ["a", "b", "c", "d"]})
    found = run_stage(stage_of(folder, keep=["user", "town"]), {"rows": users})[""]
    assert found["town"].to_list() == ["a", *"bbbbbb", "c", *"dddddd"]
    assert found.filter(pl.col("user").is_null() | (pl.col("user") == "nobody")).select("place", "rank", "score").null_count().row(0) == (
        2,
        2,
        2,
    )
    assert counts_of(stage_of(folder), {"rows": users}, 2) == {"rows_scored": 4, "unknown_users": 2}
    pairs = pl.DataFrame({"user": [known["user"][0], "nobody", known["user"][0]], "place": [known["place"][0], known["place"][0], 10_000]})
    pairs = pairs.cast({"place": known.schema["place"]})
    found = run_stage(stage_of(folder), {"rows": pairs})[""]
    assert found["score"].to_list() == [known["score"][0], None, None]
    assert counts_of(stage_of(folder), {"rows": pairs}) == {"rows_scored": 3, "unknown_users": 1, "unknown_items": 1}


def test_score__refuses_users_and_items_of_other_types_and_columns_in_its_way(folder: Path) -> None:
    rows = lists_of(folder).select("user", "place")
    with pytest.raises(StageError, match="column 'place' is Int64, and was Int32 in training"):
        plan_stage(stage_of(folder), {"rows": rows.cast({"place": pl.Int64})})
    with pytest.raises(StageError, match="no column 'user'"):
        plan_stage(stage_of(folder), {"rows": rows.drop("user")})
    with pytest.raises(StageError, match="column 'score' has the name of a column of the predictions"):
        plan_stage(stage_of(folder, keep=["user", "score"]), {"rows": rows.with_columns(score=1)})


def test_the_model__is_byte_for_byte_the_same_for_the_same_job(folder: Path) -> None:
    models = folder / "trained" / "current" / "models"
    before = {file.name: file.read_bytes() for file in models.iterdir()}
    with inside(folder):
        pipeline.load("train.yaml", inputs__rows__parts=3).run()
    after = {file.name: file.read_bytes() for file in models.iterdir()}
    assert {*after} == {"lists.npz", "lists.json"}
    assert after == before


def test_a_spoiled_model__is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    for name in ("lists.json", "lists.npz"):
        shutil.copy(folder / "trained" / "current" / "models" / name, tmp_path / name)
    (tmp_path / "lists.npz").write_bytes(b"no file of arrays")
    stage = Score(model=str(tmp_path / "lists.json"), fitted=()).opened(stage_class)
    with pytest.raises(InputError, match=r"lists\.npz: this is no model of matrix_factorization"):
        run_stage(stage, {"rows": lists_of(folder).select("user")})
