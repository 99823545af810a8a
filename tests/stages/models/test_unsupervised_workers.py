"""Stages without a target on two worker processes: what they give in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from polars.testing import assert_frame_equal

from pipeline.stages.models._unsupervised.stage import Unsupervised
from pipeline.stages.models.gaussian_mixture import GaussianMixture
from pipeline.stages.models.k_means import KMeans
from pipeline.stages.models.nearest_neighbors import NearestNeighbors
from pipeline.stages.models.truncated_svd import TruncatedSvd
from pipeline.tables.session import ClusterSession
from pipeline.testing.stages import run_stage
from tests.harness import two_workers
from tests.stages.models.points import BLOBS, FEATURES, learn

pytestmark = pytest.mark.process
POINTS = {"key": "id", "features": FEATURES}
STAGES: dict[str, Unsupervised] = {
    "k_means": KMeans.model_validate({**POINTS, "clusters": 5, "split": "split", "starts": 2}),
    "truncated_svd": TruncatedSvd.model_validate({**POINTS, "standardize": True}),
    "randomized": TruncatedSvd.model_validate({**POINTS, "method": "randomized"}),
    "gaussian_mixture": GaussianMixture.model_validate(POINTS),
}


@pytest.fixture(scope="module")
def workers() -> Iterator[ClusterSession]:
    with two_workers() as session:
        yield session


@pytest.mark.parametrize("name", STAGES)
def test_a_model__is_the_same_on_two_workers(name: str, workers: ClusterSession) -> None:
    found, whole = learn(STAGES[name], BLOBS, 4, workers), learn(STAGES[name], BLOBS)
    for table, expected in whole.tables.items():
        order = expected.columns[:1] if table == "" else []
        ours, theirs = (one.sort(order) if order else one for one in (found.tables[table], expected))
        assert_frame_equal(ours, theirs, rel_tol=1e-8, abs_tol=1e-8)
    assert found.counts == whole.counts


@pytest.mark.parametrize("method", ["exact", "ivf"])
def test_neighbors__are_the_same_on_two_workers(method: str, workers: ClusterSession) -> None:
    stage = NearestNeighbors.model_validate({**POINTS, "method": method, "probe": 3})
    tables = {"rows": BLOBS, "queries": BLOBS.head(70)}
    assert_frame_equal(run_stage(stage, tables, 3, workers)[""], run_stage(stage, tables)[""], rel_tol=1e-12)
