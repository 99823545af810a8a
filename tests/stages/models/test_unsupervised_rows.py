"""What stages without a target take for rows: one row, features of every numeric type, keys that are missing, splits that say nothing."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import StageError
from pipeline.registry import stage_class
from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.stages.models.export import Export
from pipeline.stages.models.gaussian_mixture import GaussianMixture
from pipeline.stages.models.k_means import KMeans
from pipeline.stages.models.nearest_neighbors import NearestNeighbors
from pipeline.stages.models.truncated_svd import TruncatedSvd
from pipeline.testing.stages import plan_stage, run_stage
from tests.stages.models.points import BLOBS, learn

STAGES: dict[str, tuple[type[Unsupervised], dict[str, Any]]] = {
    "k_means": (KMeans, {"clusters": 2}),
    "truncated_svd": (TruncatedSvd, {"components": 2}),
    "gaussian_mixture": (GaussianMixture, {"clusters": 2}),
}


def stage_of(name: str, **more: Any) -> Unsupervised:
    kind, size = STAGES[name]
    return kind.model_validate({"key": "id", **size, **more})


def typed(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows whose features are of many types."""
    return frame.select(
        "id",
        whole=pl.col("c").cast(pl.Int16),
        large=pl.col("c").abs().cast(pl.UInt64),
        single=pl.col("a").cast(pl.Float32),
        flag=pl.col("b") > 1,
        exact=pl.col("c").cast(pl.Decimal(12, 2)),
    )


@pytest.mark.parametrize("name", STAGES)
def test_features__are_numbers_of_any_type(name: str) -> None:
    rows = typed(BLOBS)
    floats = rows.with_columns(pl.all().exclude("id").cast(pl.Float64))
    assert isinstance(rows["exact"][0], Decimal)
    found, expected = (learn(stage_of(name, **({"floor": 1e-3} if name == "gaussian_mixture" else {})), frame) for frame in (rows, floats))
    assert_frame_equal(found.rows, expected.rows, check_exact=True)
    with pytest.raises(StageError, match="feature 'day' is Date: a point takes numbers"):
        plan_stage(stage_of(name), {"rows": rows.with_columns(day=pl.lit("2020-01-01").str.to_date())})


@pytest.mark.parametrize("name", STAGES)
def test_one_row__is_enough_for_one_cluster_or_axis(name: str) -> None:
    size = next(iter(STAGES[name][1]))
    found = learn(stage_of(name, **{size: 1, "features": ["a", "b"]}), BLOBS.head(1))
    assert found.rows.height == 1
    values = found.rows.drop("id").row(0)
    assert np.isfinite(values).all()


@pytest.mark.parametrize("name", STAGES)
def test_rows_of_no_known_split__are_answered_and_not_learned_from(name: str) -> None:
    odd = BLOBS.with_columns(split=pl.when(pl.col("id") < "r0100").then(pl.col("split")).when(pl.col("id") < "r0200").then(pl.lit("later")))
    stage = stage_of(name, split="split")
    found, expected = learn(stage, odd), learn(stage, odd.head(100))
    assert found.rows.height == 300
    assert_frame_equal(found.rows.head(100), expected.rows, rel_tol=1e-12, abs_tol=1e-12)
    assert found.counts == expected.counts
    assert found.metrics == expected.metrics


@pytest.mark.parametrize("name", STAGES)
def test_a_missing_key__is_a_row_like_another(name: str) -> None:
    rows = BLOBS.with_columns(id=pl.when(pl.col("id") != "r0007").then("id"))
    found = run_stage(stage_of(name, exclude=["split"]), {"rows": rows}, 3)[""]
    assert found.filter(pl.col("id").is_null()).height == 1
    assert found.height == 300


def test_neighbors__may_have_no_key() -> None:
    rows = pl.DataFrame({"id": [None, 2, 3], "x": [0.0, 1.0, 5.0]}, schema={"id": pl.Int64, "x": pl.Float64})
    stage = NearestNeighbors(key="id", neighbors=2, exclude_self=True)
    found = run_stage(stage, {"rows": rows, "queries": rows}, 2)[""]
    assert found["neighbor"].to_list() == [2, 3, None, 3, 2, None]


FORMS = [
    ("k_means", {"standardize": True, "missing": "mean"}),
    ("k_means", {"clusters": 5}),
    ("truncated_svd", {"whiten": True}),
    ("gaussian_mixture", {}),
    ("gaussian_mixture", {"covariance": "tied", "missing": "mean"}),
    ("gaussian_mixture", {"covariance": "diagonal", "clusters": 4}),
]


@pytest.mark.parametrize(("name", "more"), FORMS)
def test_export__writes_a_model_that_answers_alike(name: str, more: dict[str, Any], tmp_path: Path) -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b")) if "missing" in more else BLOBS
    found = learn(stage_of(name, features=["a", "b", "c"], **more), rows)
    stage = Export(model=found.save(tmp_path)).opened(stage_class)
    compared = run_stage(stage, {"rows": rows}, 3)[""]
    assert compared["column"].to_list() == list(found.description["predicts"])
    assert compared["rows"].to_list() == [300] * compared.height
    assert compared["largest_difference"].to_numpy().max() < 1e-10
