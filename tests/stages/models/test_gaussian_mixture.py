"""gaussian_mixture: from the same start it ends where scikit-learn does, for any parts, and new rows get what training gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.models.gaussian_mixture import GaussianMixture
from pipeline.stages.models.k_means import KMeans
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, shuffled
from tests.stages.models.points import BLOBS, FEATURES, Result, blobs, learn, matrix

KINDS = ["full", "diagonal", "tied"]
ROUNDED = 1e-8  # of what many rounds leave of sums in another order


def stage_for(**more: Any) -> GaussianMixture:
    return GaussianMixture.model_validate({"key": "id", "features": FEATURES, "clusters": 4, **more})


def example(**more: Any) -> StageExample:
    stage = stage_for(**more)
    return StageExample(stage, {"rows": BLOBS}, tolerances=dict.fromkeys([*stage.predicts, "weight", "center", "deviation"], ROUNDED))


EXAMPLES = [example(split="split"), example(covariance="diagonal"), example(covariance="tied", clusters=3)]


def shares(found: Result) -> Any:
    return found.rows.select(pl.col("^probability_.*$")).to_numpy()


def oracle_of(points: Any, labels: Any, kind: str, **more: Any) -> Any:
    """scikit-learn's mixture, which begins with what the rows of each label are like."""
    from sklearn.mixture import GaussianMixture as Reference

    groups = [points[labels == label] for label in range(labels.max() + 1)]
    floor = 1e-6 * np.eye(points.shape[1])
    spreads = [np.cov(group.T, bias=True) + floor for group in groups]
    sizes = np.array([len(group) for group in groups])
    if kind == "tied":
        precisions: Any = np.linalg.inv(np.average([spread - floor for spread in spreads], axis=0, weights=sizes) + floor)
    else:
        precisions = np.array([1 / np.diag(spread) if kind == "diagonal" else np.linalg.inv(spread) for spread in spreads])
    starts = {"weights_init": sizes / len(points), "means_init": np.array([group.mean(axis=0) for group in groups])}
    name = {"diagonal": "diag"}.get(kind, kind)
    more = {"tol": 1e-3, "max_iter": 100, **more}
    return Reference(len(groups), covariance_type=name, precisions_init=precisions, **starts, **more).fit(points)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_gaussian_mixture__from_the_same_start_is_scikit_learns(kind: str, tolerance: float) -> None:
    start = learn(KMeans(key="id", features=tuple(FEATURES), clusters=4, standardize=True), BLOBS)
    deviations = matrix(BLOBS).std(axis=0)
    points = (matrix(BLOBS) - matrix(BLOBS).mean(axis=0)) / deviations
    oracle = oracle_of(points, start.rows["cluster"].to_numpy(), kind, tol=tolerance, max_iter=300)
    found = learn(stage_for(covariance=kind, tolerance=tolerance, rounds=300), BLOBS, 3)
    assert found.metrics["rounds"] == oracle.n_iter_
    np.testing.assert_allclose(shares(found), oracle.predict_proba(points), rtol=1e-5, atol=1e-9)
    assert found.rows["cluster"].to_list() == oracle.predict(points).tolist()
    volume = np.log(deviations).sum()
    np.testing.assert_allclose(found.rows["log_density"], oracle.score_samples(points) - volume, rtol=1e-8)
    for name in ("aic", "bic"):
        assert found.metrics[name] == pytest.approx(getattr(oracle, name)(points) + 2 * volume * len(points), rel=1e-9)
    centers = found.tables["centers"]
    np.testing.assert_allclose(centers["weight"][:: len(FEATURES)], oracle.weights_, rtol=1e-8)
    means = oracle.means_ * deviations + matrix(BLOBS).mean(axis=0)
    np.testing.assert_allclose(centers["center"].to_numpy().reshape(4, -1), means, rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_gaussian_mixture__does_not_depend_on_parts_nor_on_the_order_of_rows(kind: str) -> None:
    stage = stage_for(covariance=kind, split="split", starts=2)
    whole = learn(stage, BLOBS)
    mixed = shuffled(BLOBS)
    assert isinstance(mixed, pl.DataFrame)
    for frame, parts in ((BLOBS, 2), (BLOBS, 7), (BLOBS, [0, 100, 0, 200]), (mixed, 3)):
        found = learn(stage, frame, parts)
        assert_frame_equal(found.rows, whole.rows, rel_tol=ROUNDED, abs_tol=ROUNDED)
        assert_frame_equal(found.tables["centers"], whole.tables["centers"], rel_tol=ROUNDED)
        assert found.counts == whole.counts
    assert learn(stage, BLOBS).model == whole.model


@pytest.mark.parametrize("kind", KINDS)
def test_score__says_of_the_rows_of_training_what_training_did(kind: str, tmp_path: Path) -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b"))
    found = learn(stage_for(covariance=kind, missing="mean"), rows, 3)
    for parts in (1, 7):
        assert_frame_equal(found.scored(rows.drop("split"), tmp_path, parts), found.rows, check_exact=True)


def test_gaussian_mixture__finds_the_places_that_rows_were_drawn_around() -> None:
    found = learn(stage_for(clusters=5, starts=5), blobs(5_000))
    weights = found.tables["centers"].filter(pl.col("feature") == "a")["weight"]
    np.testing.assert_allclose(np.sort(weights)[::-1], [0.3, 0.25, 0.2, 0.15, 0.1], atol=0.02)
    assert learn(stage_for(clusters=2), blobs(5_000)).metrics["bic"] > found.metrics["bic"]
    np.testing.assert_allclose(shares(found).sum(axis=1), 1, rtol=1e-12)


def test_gaussian_mixture__measures_every_split() -> None:
    found = learn(stage_for(split="split"), BLOBS)
    for name, metric in found.metrics.items():
        assert metric["log_density"] == pytest.approx(found.rows.filter(pl.col("split") == name)["log_density"].mean())
    assert set(found.metrics) == {"train", "validation", "test"}
    assert set(found.metrics["train"]) == {"log_density", "aic", "bic", "rounds"}


@pytest.mark.parametrize("kind", KINDS)
def test_gaussian_mixture__of_rows_that_are_alike_stands_on_its_floor(kind: str) -> None:
    rows = pl.DataFrame({"id": range(60), "x": [0.0, 0.0, 5.0] * 20, "y": 1.0})
    found = learn(GaussianMixture.model_validate({"key": "id", "clusters": 2, "covariance": kind}), rows, 3)
    assert found.rows["cluster"].to_list() == [0, 0, 1] * 20
    assert found.rows["log_density"].is_finite().all()
    same = learn(GaussianMixture.model_validate({"key": "id", "clusters": 3, "covariance": kind}), rows.with_columns(x=2.0))
    assert same.rows["cluster"].to_list() == [0] * 60
    np.testing.assert_allclose(shares(same).sum(axis=1), 1)


@pytest.mark.parametrize("scale", [1e-300, 1e12, 1e300])
def test_gaussian_mixture__does_not_mind_huge_and_tiny_numbers(scale: float) -> None:
    found, plain = learn(stage_for(), BLOBS.with_columns(pl.col(FEATURES) * scale), 2), learn(stage_for(), BLOBS)
    np.testing.assert_allclose(shares(found), shares(plain), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.rows["log_density"] + 3 * np.log(scale), plain.rows["log_density"], rtol=1e-6)


def test_gaussian_mixture__refuses_what_it_cannot_use() -> None:
    with pytest.raises(StageError, match="column 'log_density' has the name of a column of the answer"):
        plan_stage(stage_for(key="log_density"), {"rows": BLOBS.rename({"id": "log_density"})})
    four = BLOBS.with_columns(a=pl.int_range(pl.len()) % 4, b=1.0)
    for kind in KINDS:
        with pytest.raises(DataError, match="a component's covariance cannot be inverted"):
            learn(stage_for(floor=0, features=["a", "b"], covariance=kind), four)
    with pytest.raises(DataError, match="301 clusters of 300 rows"):
        learn(stage_for(clusters=301), BLOBS)
