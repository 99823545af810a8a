"""k_means: from the same first centers it ends where scikit-learn does, for any parts, and new rows get what training gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, InputError, StageError
from pipeline.kernels.k_means import plus_plus
from pipeline.stages._keys import FRACTION, STEP, with_fraction
from pipeline.stages.models._unsupervised.rows import POINTS, joined_samples, sampled
from pipeline.stages.models.k_means import KMeans
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import Session
from pipeline.tables.table import Table
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import SEED, cut, even_sizes, plan_stage, run_stage, shuffled
from tests.stages.models.points import BLOBS, FEATURES, blobs, learn, matrix


def stage_for(**more: Any) -> KMeans:
    return KMeans.model_validate({"key": "id", "features": FEATURES, "clusters": 5, **more})


EXAMPLES = [
    StageExample(stage_for(split="split", starts=2, standardize=True), {"rows": BLOBS}),
    StageExample(stage_for(mini_batch=80, rounds=20, clusters=3), {"rows": BLOBS}),
]


def wide(centers: pl.DataFrame) -> Any:
    """The table of centers as a matrix."""
    return centers.pivot("feature", index="cluster", values="center", maintain_order=True).drop("cluster").to_numpy()


def first_centers(points: Any, clusters: int) -> Any:
    """The first centers that the stage chooses of all rows of BLOBS as points: it has them in the order of their keys' hashes."""
    table = Table.of(Session(), "t", [Part(BLOBS)], schema=Schema(BLOBS.schema))
    (part,) = with_fraction(table, ["id"], STEP * (SEED + 1)).futures()
    order = part.frame[FRACTION].arg_sort().to_numpy()
    return plus_plus(points[order], clusters, np.random.default_rng([SEED, 0]))


@pytest.mark.parametrize("tolerance", [0.0, 1e-4, 0.05])
def test_k_means__from_the_same_centers_is_scikit_learns(tolerance: float) -> None:
    from sklearn.cluster import KMeans as Reference

    points = matrix(BLOBS)
    centered = points - points.mean(axis=0)
    found = learn(stage_for(tolerance=tolerance), BLOBS)
    oracle = Reference(5, init=first_centers(centered, 5), n_init=1, tol=tolerance, max_iter=100, algorithm="lloyd").fit(centered)
    places = wide(found.tables["centers"])
    pairs = [int(np.abs(places - center - points.mean(axis=0)).sum(axis=1).argmin()) for center in oracle.cluster_centers_]
    assert sorted(pairs) == list(range(5))
    np.testing.assert_allclose(places[pairs], oracle.cluster_centers_ + points.mean(axis=0), rtol=1e-10)
    assert found.rows["cluster"].to_list() == [pairs[label] for label in oracle.labels_]
    assert found.metrics["inertia"] == pytest.approx(oracle.inertia_, rel=1e-10)
    assert found.metrics["rounds"] == oracle.n_iter_ == found.counts["rounds"]
    np.testing.assert_allclose(found.rows["distance"], oracle.transform(centered).min(axis=1), rtol=1e-9)


def test_k_means__finds_what_scikit_learns_best_of_many_finds() -> None:
    from sklearn.cluster import KMeans as Reference
    from sklearn.metrics import adjusted_rand_score
    from sklearn.preprocessing import StandardScaler

    points = StandardScaler().fit_transform(matrix(BLOBS))
    found, oracle = learn(stage_for(standardize=True, starts=8), BLOBS), Reference(5, n_init=30, random_state=1).fit(points)
    assert found.metrics["inertia"] == pytest.approx(oracle.inertia_, rel=1e-3)
    assert adjusted_rand_score(found.rows["cluster"], oracle.labels_) > 0.98
    sizes = found.tables["centers"]["rows"].to_numpy()[:: len(FEATURES)]
    assert (np.diff(sizes) <= 0).all()
    assert sizes.tolist() == np.bincount(found.rows["cluster"]).tolist()


def test_k_means__in_small_batches_comes_near_all_rows() -> None:
    rows = blobs(3_000)
    whole, batch = learn(stage_for(starts=5), rows), learn(stage_for(starts=5, mini_batch=300, rounds=60, tolerance=0), rows)
    assert batch.metrics["inertia"] < 1.02 * whole.metrics["inertia"]
    assert batch.metrics["rounds"] == 60


@pytest.mark.parametrize("more", [{}, {"mini_batch": 60, "rounds": 9}, {"split": "split", "starts": 3}], ids=["all", "batch", "split"])
def test_k_means__does_not_depend_on_parts_nor_on_the_order_of_rows(more: dict[str, Any]) -> None:
    stage = stage_for(**more)
    whole = learn(stage, BLOBS)
    for parts in (2, 7, 70, [0, 100, 0, 200]):
        found = learn(stage, BLOBS, parts)
        assert_frame_equal(found.rows, whole.rows, rel_tol=1e-10)
        assert_frame_equal(found.tables["centers"], whole.tables["centers"], rel_tol=1e-10)
        assert found.counts == whole.counts
    mixed = shuffled(BLOBS)
    assert isinstance(mixed, pl.DataFrame)
    assert_frame_equal(learn(stage, mixed).rows, whole.rows, rel_tol=1e-10)
    assert learn(stage, BLOBS).model == whole.model


@pytest.mark.parametrize("more", [{}, {"standardize": True, "missing": "mean"}], ids=["plain", "filled"])
def test_score__puts_the_rows_of_training_where_training_did(more: dict[str, Any], tmp_path: Path) -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b")) if more else BLOBS
    found = learn(stage_for(**more), rows, 3)
    for parts in (1, 7):
        assert_frame_equal(found.scored(rows.drop("split"), tmp_path, parts), found.rows, check_exact=True)
    if not more:
        with pytest.raises(DataError, match=r"feature 'b' is missing in 1 rows\. Fill it"):
            found.scored(BLOBS.with_columns(b=pl.when(pl.col("id") > "r0000").then("b")), tmp_path)
        for content in (b"no", found.model[:200], b""):
            with pytest.raises(InputError, match="these bytes are no model"):
                KMeans.predictor(found.description, content, "cpu")


def test_k_means__learns_from_the_training_rows_and_measures_every_split() -> None:
    found = learn(stage_for(split="split"), BLOBS)
    train = BLOBS.filter(pl.col("split") == "train")
    assert_frame_equal(learn(stage_for(), train).tables["centers"], found.tables["centers"], rel_tol=1e-10)
    assert set(found.metrics) == {"train", "validation", "test"}
    for name, metric in found.metrics.items():
        assert metric["inertia"] == pytest.approx((found.rows.filter(pl.col("split") == name)["distance"] ** 2).sum())
    assert found.counts["rows_train"] == train.height
    assert found.rows.columns == ["id", "split", "cluster", "distance"]


def test_k_means__with_more_clusters_than_distinct_rows_leaves_some_empty_and_says_so() -> None:
    rows = pl.DataFrame({"id": range(40), "x": [0.0, 1.0, 5.0, 5.0] * 10})
    stage = KMeans(key="id", clusters=6)
    found = learn(stage, rows, 3)
    assert found.rows["distance"].max() == 0
    assert sorted(set(found.tables["centers"]["rows"])) == [0, 10, 20]
    assert found.warnings == ["3 of 6 clusters have no rows: there are fewer distinct rows. Ask for fewer clusters."]
    assert_frame_equal(found.rows, learn(stage, rows).rows)
    same = learn(KMeans(key="id", clusters=2), rows.with_columns(x=7.0))
    assert same.rows["cluster"].to_list() == [0] * 40
    assert same.metrics["inertia"] == 0
    with pytest.raises(DataError, match=r"41 clusters of 40 rows to learn from"):
        learn(KMeans(key="id", clusters=41), rows)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_k_means__does_not_mind_huge_and_tiny_numbers(scale: float) -> None:
    scaled = BLOBS.with_columns(pl.col(FEATURES) * scale)
    for more in ({}, {"standardize": True}):
        found, plain = learn(stage_for(**more), scaled, 2), learn(stage_for(**more), BLOBS)
        assert found.rows["cluster"].equals(plain.rows["cluster"])
        unit = 1.0 if more else scale
        np.testing.assert_allclose(found.rows["distance"] / unit, plain.rows["distance"], rtol=1e-9)
        np.testing.assert_allclose(found.tables["centers"]["center"] / scale, plain.tables["centers"]["center"], rtol=1e-9)


def test_k_means__gives_rows_between_two_centers_to_the_first() -> None:
    rows = pl.DataFrame({"id": range(9), "x": [-1.0] * 5 + [1.0] * 3 + [0.0], "split": ["train"] * 8 + ["test"]})
    for parts in (1, 2, 7):
        found = learn(KMeans(key="id", clusters=2, split="split"), rows, parts)
        assert found.rows["cluster"].to_list() == [0] * 5 + [1] * 3 + [0]


def test_k_means__refuses_what_it_cannot_use() -> None:
    cases: list[tuple[dict[str, Any], pl.DataFrame, str]] = [
        ({"features": ["id"]}, BLOBS, "features names 'id', which is the key"),
        ({"features": []}, BLOBS, "feature 'split' is String: a point takes numbers"),
        ({"features": ["d"]}, BLOBS, "the table has no column 'd'"),
        ({"key": "a"}, BLOBS, "key 'a' is Float64, and a key is text"),
        ({"split": "a"}, BLOBS, "split 'a' is Float64"),
        ({"features": [], "exclude": [*FEATURES, "split"]}, BLOBS, "there is no feature column left"),
        ({"key": "cluster"}, BLOBS.rename({"id": "cluster"}), "column 'cluster' has the name of a column of the answer"),
    ]
    for more, rows, said in cases:
        with pytest.raises(StageError, match=said):
            plan_stage(stage_for(**more), {"rows": rows})
    with pytest.raises(DataError, match="feature 'b' is missing in 300 rows"):
        run_stage(stage_for(), {"rows": BLOBS.with_columns(b=pl.lit(None, pl.Float64))})
    with pytest.raises(DataError, match="feature number 2 is missing in every row to learn from"):
        run_stage(stage_for(missing="mean"), {"rows": BLOBS.with_columns(b=pl.lit(None, pl.Float64))})
    with pytest.raises(DataError, match="there is no row to learn from"):
        run_stage(stage_for(split="split"), {"rows": BLOBS.with_columns(split=pl.lit("test"))})
    with pytest.raises(DataError, match="feature 'a' has infinite values"):
        run_stage(stage_for(), {"rows": BLOBS.with_columns(a=pl.lit(float("inf")))})


def test_a_sample__of_many_features_has_fewer_rows_whatever_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.models._unsupervised.rows.NUMBERS", 3 * 110)
    frame = pl.DataFrame({"id": range(300), FRACTION: np.random.default_rng(1).uniform(size=300)})
    whole = Part(frame, {POINTS: matrix(BLOBS)})
    for parts in (1, 2, 7):
        found = joined_samples(200, [sampled(part, None, 200, 50) for part in cut(whole, even_sizes(300, parts))], least=50)
        assert found[1].tolist() == np.sort(frame[FRACTION])[:110].tolist()
    assert len(sampled(whole, None, 200, 150)[1]) == 150
    assert len(sampled(whole, None, 200)[1]) == 200
