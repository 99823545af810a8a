"""Every kind of model is served: any split of its rows into requests gives what score gives for all of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.registry import stage_class
from pipeline.serving.place import model_path, models_of
from pipeline.serving.rows import read_json, write_json
from pipeline.serving.served import Served
from pipeline.stages.models.score import Score
from pipeline.testing.stages import run_stage
from tests.serving.serving import asked_rows
from tests.small import inside
from tests.stages.models.test_score import raw_rows

LEARNED = "key: id, features: [income, age, town], categorical: [town]"
JOB = f"""\
job: train
seed: 5
results: trained
inputs: {{rows: {{format: parquet, path: rows.parquet}}}}
stages:
  - {{use: split, from: rows, as: divided, key: id, train: 0.6, validation: 0.2, test: 0.2}}
  - {{use: fill_missing, from: divided, as: filled, columns: [income], method: mean, fit_where: "split = 'train'"}}
  - {{use: categorify, from: filled, as: coded, columns: [town], fit_where: "split = 'train'"}}
  - {{use: xgboost, from: coded, as: thirds, target: third, objective: multiclass, classes: [low, middle, high], rounds: 5, {LEARNED}}}
  - {{use: xgboost, from: coded, as: levels, target: level, objective: quantile, quantiles: [0.1, 0.9], rounds: 5, {LEARNED}}}
  - {{use: network, from: coded, as: net, target: high, objective: binary, rounds: 2, {LEARNED}}}
  - {{use: linear, from: coded, as: line, target: level, objective: regression, {LEARNED}}}
  - {{use: k_means, from: coded, as: groups, key: id, clusters: 3, features: [income, age]}}
  - {{use: truncated_svd, from: coded, as: axes, key: id, components: 2, features: [income, age]}}
  - {{use: isolation_forest, from: coded, as: unusual, key: id, features: [income, age]}}
  - {{use: matrix_factorization, from: rows, as: liked, user: town, item: age, factors: 3}}
outputs: {{thirds: {{from: thirds}}, levels: {{from: levels}}, net: {{from: net}}, line: {{from: line}}, groups: {{from: groups}},
           axes: {{from: axes}}, unusual: {{from: unusual}}, liked: {{from: liked}}}}
"""
NAMES = ("axes", "groups", "levels", "liked", "line", "net", "thirds", "unusual")
ROUNDED = ("axes", "line", "net")
"""Products of matrices, whose last bits depend on how many rows there are."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a model of every kind."""
    folder = tmp_path_factory.mktemp("kinds")
    raw_rows().write_parquet(folder / "rows.parquet")
    (folder / "train.yaml").write_text(JOB)
    with inside(folder):
        pipeline.load("train.yaml").run()
    return folder / "trained"


def test_the_run__has_all_these_models(results: Path) -> None:
    assert tuple(models_of(str(results / "current"))) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_any_kind__is_served_as_it_scores(name: str, results: Path) -> None:
    path, rows = model_path(str(results), name), asked_rows()
    served = Served(path)
    kept = tuple(column for column in (served.key,) if column in rows.columns)
    expected = run_stage(Score(model=path, keep=kept).opened(stage_class), {"rows": rows})[""]
    whole, *parts = served.answers([rows, *(rows[start : start + 57] for start in range(0, rows.height, 57))])
    given = served.answers([served.typed(read_json(write_json(rows)))])
    exact = {"check_exact": True} if name not in ROUNDED else {"rel_tol": 1e-5}
    together = pl.concat([part for part in parts if isinstance(part, pl.DataFrame)])
    for found in (whole, together, *given):
        assert isinstance(found, pl.DataFrame), found
        assert_frame_equal(found, expected, **exact)
