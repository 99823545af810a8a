"""Models without a target in jobs: behind stages that learn too, published, and scored from the published files alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.stages.models.gaussian_mixture import GaussianMixture
from pipeline.stages.models.isolation_forest import IsolationForest
from pipeline.stages.models.k_means import KMeans
from pipeline.stages.models.nearest_neighbors import NearestNeighbors
from pipeline.stages.models.truncated_svd import TruncatedSvd
from pipeline.tables.part import Part, concat_parts
from pipeline.testing.stages import cut, even_sizes, run_parts, run_stage
from tests.small import inside
from tests.stages.models.points import BLOBS

TRAINING = """\
job: train
results: trained
inputs: {{rows: {{format: parquet, path: rows.parquet, parts: 3}}}}
stages:
  - {{use: fill_missing, from: rows, as: filled, columns: [b], method: mean, fit_where: "split = 'train'"}}
  - {{use: standardize, from: filled, as: scaled, columns: [a, b, c], fit_where: "split = 'train'"}}
  - {{use: {use}, from: scaled, as: model, key: id, split: split, {size}: 3}}
outputs: {{answers: {{from: model, sort_by: id}}}}
"""
SCORING = """\
job: score
results: scored
inputs: {rows: {format: parquet, path: new.parquet, parts: 2}}
stages:
  - {use: score, from: rows, as: scores, model: trained/current/models/model.json}
outputs: {scores: {from: scores, sort_by: id}}
"""
NEAR = """\
job: near
results: results
inputs: {rows: {format: parquet, path: rows.parquet, parts: 3}}
stages:
  - {use: nearest_neighbors, from: {rows: rows, queries: rows}, as: near, key: id, features: [a, b, c], neighbors: 3, exclude_self: true}
outputs: {near: {from: near}}
"""
SIZES = {"k_means": "clusters", "truncated_svd": "components", "gaussian_mixture": "clusters", "isolation_forest": "trees"}


@pytest.mark.parametrize("use", SIZES)
def test_a_published_model__says_of_the_rows_of_training_what_training_did(use: str, tmp_path: Path) -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b"))
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=70)
    rows.drop("split").write_parquet(tmp_path / "new.parquet", row_group_size=110)
    (tmp_path / "train.yaml").write_text(TRAINING.format(use=use, size=SIZES[use]))
    (tmp_path / "score.yaml").write_text(SCORING)
    with inside(tmp_path):
        run = pipeline.load("train.yaml").run()
        trained = run.table("answers").to_polars()
        found = pipeline.load("score.yaml").run().table("scores").to_polars()
    assert found.columns[0] == "id"
    assert len(found.columns) > 1
    assert_frame_equal(found, trained.select(found.columns), check_exact=True)
    counts = run.record["stages"]["model"]["counts"]
    assert counts["rows_train"] == BLOBS["split"].eq("train").sum()
    assert set(run.metrics["model"]) == {"train", "validation", "test"}


def test_neighbors__in_a_job_are_those_of_a_table_itself(tmp_path: Path) -> None:
    BLOBS.write_parquet(tmp_path / "rows.parquet", row_group_size=70)
    (tmp_path / "near.yaml").write_text(NEAR)
    with inside(tmp_path):
        run = pipeline.load("near.yaml").run()
    found = run.table("near").to_polars().sort("id", "rank")
    assert run.record["stages"]["near"]["counts"] == {"rows_known": 300, "queries": 300}
    stage = NearestNeighbors(key="id", features=("a", "b", "c"), neighbors=3, exclude_self=True)
    expected = run_stage(stage, {"rows": BLOBS, "queries": BLOBS})[""]
    assert_frame_equal(found, expected.sort("id", "rank"), rel_tol=1e-12)


STAGES: dict[str, Unsupervised] = {
    "isolation_forest": IsolationForest(key="id", trees=9, exclude=("split",)),
    "gaussian_mixture": GaussianMixture(key="id", clusters=3, exclude=("split",), covariance="diagonal"),
    "k_means": KMeans(key="id", clusters=3, exclude=("split",), standardize=True),
    "truncated_svd": TruncatedSvd(key="id", components=3, exclude=("split",), method="exact"),
}


@pytest.mark.parametrize("use", STAGES)
def test_features__may_be_arrays_that_ride_along(use: str) -> None:
    dosages = np.random.default_rng(1).binomial(2, 0.3, (BLOBS.height, 6)).astype(np.float32)
    axis = pl.DataFrame({"variant_id": [f"rs{number}" for number in range(6)]})
    inside_frame = BLOBS.hstack([pl.Series(f"rs{number}", dosages[:, number]) for number in range(6)])
    expected = run_stage(STAGES[use], {"rows": inside_frame})
    for parts in (1, 3):
        pieces = cut(Part(BLOBS, {"dosages": dosages}), even_sizes(BLOBS.height, parts))
        found = run_parts(STAGES[use], {"rows": pieces}, axes={"dosages": axis})
        for name, table in expected.items():
            assert_frame_equal(concat_parts(found[name]).frame, table, rel_tol=1e-9, abs_tol=1e-9)
