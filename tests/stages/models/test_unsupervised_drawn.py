"""Drawn tables, most of them with rows that are alike and equally far: answers by their definitions, whatever the parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.stages.models.k_means import KMeans
from pipeline.stages.models.nearest_neighbors import NearestNeighbors
from pipeline.stages.models.truncated_svd import TruncatedSvd
from pipeline.tables.part import concat_parts
from pipeline.testing.stages import cut, even_sizes, run_parts
from tests.stages.models.points import learn

FEW = settings(max_examples=40, deadline=None, derandomize=True)
GRID = st.integers(-2, 2).map(float)


@st.composite
def tables(draw: st.DrawFn, values: st.SearchStrategy[float] = GRID, least: int = 1) -> pl.DataFrame:
    """Rows of two features with keys in any order."""
    rows = draw(st.lists(st.tuples(values, values), min_size=least, max_size=30))
    keys = draw(st.permutations(range(len(rows))))
    return pl.DataFrame({"id": keys, "x": [x for x, _ in rows], "y": [y for _, y in rows]}, schema={"id": pl.Int64, "x": float, "y": float})


TIED = pl.DataFrame({"id": range(5), "x": [0.0] * 5, "y": [0.0, 1, 1, 1, -1]})
"""Rows whose mean is no whole number, four of them equally far from the first."""


def points(frame: pl.DataFrame) -> Any:
    return frame.select("x", "y").to_numpy()


@FEW
@example(TIED, TIED[:1].with_columns(y=0.0), 2, (1, 1), False)
@given(tables(), tables(), st.integers(1, 6), st.tuples(st.integers(1, 5), st.integers(1, 3)), st.booleans())
def test_nearest_neighbors__are_the_first_by_distance_and_key(
    rows: pl.DataFrame, queries: pl.DataFrame, wanted: int, parts: tuple[int, int], alone: bool
) -> None:
    stage = NearestNeighbors(key="id", neighbors=wanted, exclude_self=alone)
    both = {"rows": cut(rows, even_sizes(rows.height, parts[0])), "queries": cut(queries, even_sizes(queries.height, parts[1]))}
    found = concat_parts(run_parts(stage, both)[""]).frame
    keys = rows["id"].to_numpy()
    for key, place in zip(queries["id"], points(queries), strict=True):
        squares = ((points(rows) - place) ** 2).sum(axis=1)
        order = [at for at in np.lexsort((keys, squares)) if not (alone and keys[at] == key)][:wanted]
        own = found.filter(pl.col("id") == key)
        assert own["neighbor"].to_list() == keys[order].tolist()
        np.testing.assert_allclose(own["distance"], np.sqrt(squares[order]), rtol=1e-12)


@FEW
@given(tables(), st.integers(1, 5), st.integers(1, 5))
def test_k_means__gives_every_row_its_nearest_center_and_every_center_the_mean_of_its_rows(
    rows: pl.DataFrame, clusters: int, parts: int
) -> None:
    clusters = min(clusters, rows.height)
    found = learn(KMeans(key="id", clusters=clusters, tolerance=0), rows, parts)
    centers = found.tables["centers"].pivot("feature", index="cluster", values="center", maintain_order=True).drop("cluster").to_numpy()
    places, chosen = points(rows.sort("id")), found.rows["cluster"].to_numpy()
    squares = ((places[:, None] - centers) ** 2).sum(axis=2)
    np.testing.assert_allclose(squares[np.arange(len(places)), chosen], squares.min(axis=1), atol=1e-12)
    for cluster in set(chosen.tolist()):
        np.testing.assert_allclose(places[chosen == cluster].mean(axis=0), centers[cluster], atol=1e-12)


@FEW
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 5))
def test_k_means__of_rows_that_are_not_equally_far_is_the_same_in_any_order_and_parts(seed: int, clusters: int, parts: int) -> None:
    places = np.random.default_rng(seed).normal(size=(30, 2))
    rows = pl.DataFrame({"id": np.arange(30), "x": places[:, 0], "y": places[:, 1]})
    stage = KMeans(key="id", clusters=clusters, tolerance=0)
    assert learn(stage, rows.reverse(), parts).rows["cluster"].equals(learn(stage, rows, 1).rows["cluster"])


@FEW
@given(tables(st.floats(-1e3, 1e3), least=2), st.integers(1, 5), st.booleans())
def test_truncated_svd__keeps_all_squares_in_as_many_axes_as_features(rows: pl.DataFrame, parts: int, center: bool) -> None:
    found = learn(TruncatedSvd(key="id", components=2, center=center), rows, parts)
    places = points(rows.sort("id"))
    places = places - places.mean(axis=0) if center else places
    ours = found.rows.select("component_1", "component_2").to_numpy()
    np.testing.assert_allclose(
        (ours**2).sum(axis=1), (places**2).sum(axis=1), rtol=1e-6, atol=1e-12 * max((places**2).max(), 1e-300) + 1e-290
    )
    variance = found.tables["variance"]["singular_value"].to_numpy()
    np.testing.assert_allclose(variance, np.linalg.svd(places, compute_uv=False), rtol=1e-9, atol=1e-11 * max(abs(places).max(), 1e-300))
