"""truncated_svd: scikit-learn's PCA and TruncatedSVD, for any parts, by one method or the other, and new rows get what training gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.stages.models import truncated_svd
from pipeline.stages.models.truncated_svd import TruncatedSvd
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage, shuffled
from tests.stages.models.points import BLOBS, FEATURES, Result, learn, matrix


def wide_rows(rows: int = 260, columns: int = 40) -> pl.DataFrame:
    """Rows of many columns in which a few directions stand out."""
    random = np.random.default_rng(20261122)
    strong = random.normal(size=(rows, 4)) * [9, 6, 4, 2.5]
    values = strong @ np.linalg.qr(random.normal(size=(columns, 4)))[0].T + 0.01 * random.normal(size=(rows, columns)) + 3
    return pl.DataFrame({"id": range(rows), **{f"x{number:02d}": values[:, number] for number in range(columns)}})


WIDE = wide_rows()
COLUMNS = WIDE.columns[1:]


def stage_for(**more: Any) -> TruncatedSvd:
    return TruncatedSvd.model_validate({"key": "id", "features": FEATURES, "components": 2, **more})


EXAMPLES = [
    StageExample(stage_for(split="split", standardize=True), {"rows": BLOBS}),
    StageExample(
        TruncatedSvd(key="id", components=3, center=False, method="randomized"),
        {"rows": WIDE},
        tolerances=dict.fromkeys(["component_1", "component_2", "component_3", "loading", "residual"], 1e-8),
    ),
]


def places(found: Result) -> Any:
    return found.rows.select(pl.col("^component_.*$")).to_numpy()


def loadings(found: Result) -> Any:
    return found.tables["loadings"].pivot("feature", index="component", values="loading", maintain_order=True).drop("component").to_numpy()


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize(("frame", "columns"), [(BLOBS, FEATURES), (WIDE, COLUMNS)], ids=["few", "many"])
def test_truncated_svd__centered_is_scikit_learns_pca(frame: pl.DataFrame, columns: list[str], whiten: bool) -> None:
    from sklearn.decomposition import PCA

    oracle = PCA(3, whiten=whiten, svd_solver="full").fit(matrix(frame, columns))
    for method, limit in (("exact", 1e-9), ("randomized", 1e-7)):
        found = learn(stage_for(features=columns, components=3, whiten=whiten, method=method), frame, 3)
        np.testing.assert_allclose(places(found), oracle.transform(matrix(frame, columns)), rtol=limit, atol=100 * limit)
        np.testing.assert_allclose(loadings(found), oracle.components_, rtol=limit, atol=limit)
        variance = found.tables["variance"]
        np.testing.assert_allclose(variance["singular_value"], oracle.singular_values_, rtol=1e-9)
        np.testing.assert_allclose(variance["explained_variance"], oracle.explained_variance_, rtol=1e-9)
        np.testing.assert_allclose(variance["explained_share"], oracle.explained_variance_ratio_, rtol=1e-9)
        assert found.metrics["share_of_squares"] == pytest.approx(oracle.explained_variance_ratio_.sum(), rel=1e-9)
        assert variance["residual"].to_numpy().max() < (1e-6 if method == "randomized" else 1e-300)


@pytest.mark.parametrize("method", ["exact", "randomized"])
def test_truncated_svd__that_is_not_centered_is_scikit_learns(method: str) -> None:
    from sklearn.decomposition import TruncatedSVD

    points = matrix(WIDE, COLUMNS)
    oracle = TruncatedSVD(3, algorithm="arpack", random_state=1).fit(points)
    found = learn(stage_for(features=COLUMNS, components=3, center=False, method=method), WIDE, 2)
    np.testing.assert_allclose(places(found), oracle.transform(points), rtol=1e-6, atol=1e-6)
    variance = found.tables["variance"]
    np.testing.assert_allclose(variance["singular_value"], oracle.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(variance["explained_variance"], oracle.explained_variance_, rtol=1e-7)
    np.testing.assert_allclose(variance["explained_share"], oracle.explained_variance_ratio_, rtol=1e-7)


def test_truncated_svd__of_standardized_features_is_scikit_learns_behind_its_scaler() -> None:
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    train = (BLOBS["split"] == "train").to_numpy()
    scaler = StandardScaler().fit(matrix(BLOBS)[train])
    oracle = PCA(2, svd_solver="full").fit(scaler.transform(matrix(BLOBS))[train])
    found = learn(stage_for(standardize=True, split="split"), BLOBS, 4)
    np.testing.assert_allclose(places(found), oracle.transform(scaler.transform(matrix(BLOBS))), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.tables["variance"]["explained_share"], oracle.explained_variance_ratio_, rtol=1e-10)
    assert found.metrics["train"]["share_of_squares"] == pytest.approx(oracle.explained_variance_ratio_.sum())
    assert set(found.metrics) == {"train", "validation", "test"}


@pytest.mark.parametrize("method", ["exact", "randomized"])
def test_truncated_svd__does_not_depend_on_parts_nor_on_the_order_of_rows(method: str) -> None:
    stage = stage_for(features=COLUMNS, components=4, method=method)
    whole = learn(stage, WIDE)
    mixed = shuffled(WIDE)
    assert isinstance(mixed, pl.DataFrame)
    for frame, parts in ((WIDE, 2), (WIDE, 7), (WIDE, [0, 200, 0, 60]), (mixed, 3)):
        found = learn(stage, frame, parts)
        for name, table in whole.tables.items():
            order = ["id"] if name == "" else ["component"]
            assert_frame_equal(found.tables[name].sort(order), table.sort(order), rel_tol=1e-7, abs_tol=1e-7)
    assert learn(stage, WIDE).model == whole.model


@pytest.mark.parametrize("more", [{}, {"whiten": True, "missing": "mean", "standardize": True}, {"center": False}])
def test_score__places_the_rows_of_training_where_training_did(more: dict[str, Any], tmp_path: Path) -> None:
    rows = BLOBS.with_columns(b=pl.when(pl.col("a") > 480).then("b")) if "missing" in more else BLOBS
    found = learn(stage_for(**more), rows, 3)
    for parts in (1, 7):
        assert_frame_equal(found.scored(rows.drop("split"), tmp_path, parts), found.rows, check_exact=True)


def test_truncated_svd__gives_zero_for_axes_that_are_not_determined() -> None:
    rows = BLOBS.with_columns(b=2 * pl.col("a") + 1, c=7)
    for method in ("exact", "randomized"):
        found = learn(stage_for(components=3, method=method, whiten=True), rows, 2)
        assert found.rows["component_1"].std() == pytest.approx(1)
        assert (places(found)[:, 1:] == 0).all()
        assert found.tables["variance"]["explained_share"].to_list() == pytest.approx([1, 0, 0])
    alike = learn(stage_for(), rows.with_columns(pl.lit(3.5).alias(name) for name in FEATURES))
    assert (places(alike) == 0).all()
    assert alike.metrics["share_of_squares"] is None


def test_truncated_svd__keeps_small_singular_values_that_a_matrix_of_products_would_lose() -> None:
    random = np.random.default_rng(4)
    basis, _ = np.linalg.qr(random.normal(size=(200, 3)))
    values = basis * [1e6, 1.0, 1e-4]
    rows = pl.DataFrame({"id": range(200), **dict(zip(FEATURES, values.T, strict=True))})
    found = learn(stage_for(components=3, center=False), rows, 4)
    np.testing.assert_allclose(found.tables["variance"]["singular_value"], [1e6, 1.0, 1e-4], rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e12, 1e300])
def test_truncated_svd__does_not_mind_huge_and_tiny_numbers(scale: float) -> None:
    found, plain = learn(stage_for(), BLOBS.with_columns(pl.col(FEATURES) * scale), 2), learn(stage_for(), BLOBS)
    np.testing.assert_allclose(places(found) / scale, places(plain), rtol=1e-9, atol=1e-9)
    variance = found.tables["variance"]
    np.testing.assert_allclose(variance["explained_share"], plain.tables["variance"]["explained_share"], rtol=1e-9)
    assert (variance["explained_variance"].null_count() == 2) == (scale == 1e300)


def test_truncated_svd__of_one_feature_and_of_equal_ones_has_signs_by_rule() -> None:
    one = learn(stage_for(features=["a"], components=1), BLOBS)
    np.testing.assert_allclose(one.rows["component_1"], BLOBS["a"] - BLOBS["a"].mean(), rtol=1e-9)
    rows = BLOBS.select("id", "a", b=-pl.col("a"))
    for parts in (1, 2, 7):
        assert loadings(learn(stage_for(features=["a", "b"], components=1), rows, parts))[0, 0] > 0


def test_truncated_svd__refuses_more_axes_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageError, match="4 axes of 3 features; ask for at most as many"):
        plan_stage(stage_for(components=4), {"rows": BLOBS})
    for limit in (1_000, 1):  # randomized beyond
        monkeypatch.setattr(truncated_svd, "EXACT", limit)
        with pytest.raises(DataError, match="3 axes of 3 features and 2 rows to learn from"):
            learn(stage_for(components=3), BLOBS.head(2))


def test_truncated_svd__refuses_an_exact_answer_of_too_many_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stages.models._unsupervised.axes.MOST", 39)
    stage = stage_for(features=COLUMNS, method="exact")
    with pytest.raises(DataError, match=r"40 x 40 numbers a task, 0\.0 GiB; at most 39 features\. Use method: randomized"):
        learn(stage, WIDE)
