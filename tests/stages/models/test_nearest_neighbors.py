"""nearest_neighbors: scikit-learn's neighbors, for any parts of both tables, ties by key; what ivf misses is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.errors import DataError, StageError
from pipeline.kernels import neighbors
from pipeline.kernels.neighbors import first_pairs, nearest_pairs
from pipeline.stages.models.nearest_neighbors import NearestNeighbors
from pipeline.tables.part import concat_parts
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import cut, even_sizes, plan_stage, run_parts, shuffled
from tests.stages.models.points import BLOBS, FEATURES, blobs, matrix

ROWS = BLOBS.drop("split")
QUERIES = blobs(70, seed=3).drop("split")


def stage_for(**more: Any) -> NearestNeighbors:
    return NearestNeighbors.model_validate({"key": "id", "features": FEATURES, "neighbors": 5, **more})


EXAMPLES = [
    StageExample(stage_for(standardize=True), {"rows": ROWS, "queries": QUERIES}),
    StageExample(stage_for(metric="cosine", exclude_self=True), {"rows": ROWS, "queries": ROWS}),
    StageExample(stage_for(method="ivf", probe=3), {"rows": ROWS, "queries": QUERIES}),
]


def found_of(stage: NearestNeighbors, rows: pl.DataFrame, queries: pl.DataFrame, parts: tuple[int, int] = (1, 1)) -> pl.DataFrame:
    both = {"rows": cut(rows, even_sizes(rows.height, parts[0])), "queries": cut(queries, even_sizes(queries.height, parts[1]))}
    return concat_parts(run_parts(stage, both)[""]).frame


def places(found: pl.DataFrame, keys: pl.Series) -> Any:
    """The neighbors of every query as row numbers."""
    numbers = {key: number for number, key in enumerate(keys)}
    return np.array([numbers[key] for key in found["neighbor"]]).reshape(-1, found["rank"].to_numpy().max())


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("standardize", [False, True])
def test_nearest_neighbors__are_scikit_learns(metric: str, standardize: bool) -> None:
    from sklearn.neighbors import NearestNeighbors as Reference

    deviations = matrix(ROWS).std(axis=0) if standardize else 1.0
    oracle = Reference(n_neighbors=5, metric=metric, algorithm="brute").fit(matrix(ROWS) / deviations)
    distances, numbers = oracle.kneighbors(matrix(QUERIES) / deviations)
    found = found_of(stage_for(metric=metric, standardize=standardize), ROWS, QUERIES, (3, 2))
    assert found.columns == ["id", "rank", "neighbor", "distance"]
    assert found["id"].to_list() == np.repeat(QUERIES["id"].to_numpy(), 5).tolist()
    assert found["rank"].to_list() == [1, 2, 3, 4, 5] * QUERIES.height
    np.testing.assert_allclose(found["distance"].to_numpy().reshape(-1, 5), distances, rtol=1e-6, atol=1e-14)
    assert (places(found, ROWS["id"]) == numbers).mean() > 0.999


@pytest.mark.parametrize("method", ["exact", "ivf"])
def test_nearest_neighbors__do_not_depend_on_parts_nor_on_the_order_of_rows(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_for(method=method, probe=4)
    whole = found_of(stage, ROWS, QUERIES).sort("id", "rank")
    mixed = shuffled(ROWS)
    assert isinstance(mixed, pl.DataFrame)
    for rows, parts in ((ROWS, (2, 1)), (ROWS, (7, 3)), (mixed, (3, 2)), (ROWS, (1, 9))):
        assert_frame_equal(found_of(stage, rows, QUERIES, parts).sort("id", "rank"), whole, rel_tol=1e-12)
    pieces = {"rows": cut(ROWS, [0, 10, 0, 290]), "queries": cut(QUERIES, [0, 70, 0])}
    assert_frame_equal(concat_parts(run_parts(stage, pieces)[""]).frame.sort("id", "rank"), whole, rel_tol=1e-12)
    monkeypatch.setattr(neighbors, "_ROWS", 13)
    assert_frame_equal(found_of(stage, ROWS, QUERIES).sort("id", "rank"), whole, rel_tol=1e-12)


def test_ivf__finds_nearly_all_neighbors_in_a_few_cells_and_all_in_all() -> None:
    rows, queries = blobs(6_000).drop("split"), blobs(300, seed=9).drop("split")
    more: dict[str, Any] = {"neighbors": 10, "standardize": True}
    exact = found_of(stage_for(**more), rows, queries)
    pairs = set(exact.select("id", "neighbor").iter_rows())
    recall = {}
    for probe in (1, 8, 60):
        found = found_of(stage_for(**more, method="ivf", cells=60, probe=probe), rows, queries, (2, 1))
        recall[probe] = len(pairs & set(found.select("id", "neighbor").iter_rows())) / len(pairs)
    assert recall[1] < recall[8]
    assert recall[8] > 0.97
    assert_frame_equal(found, exact)


def test_nearest_neighbors__of_a_table_itself_leave_the_row_out() -> None:
    whole = found_of(stage_for(neighbors=6), ROWS, ROWS, (2, 2))
    found = found_of(stage_for(exclude_self=True), ROWS, ROWS, (2, 2))
    assert_frame_equal(found.drop("rank"), whole.filter(pl.col("rank") > 1).drop("rank"))
    assert (whole.filter(pl.col("rank") == 1)["distance"] == 0).all()


def test_nearest_neighbors__equally_near_come_in_the_order_of_their_keys() -> None:
    rows = pl.DataFrame({"id": [9, 3, 7, 1, 5, 2], "x": [1.0, -1.0, 1.0, 1.0, -1.0, 30.0]})
    query = pl.DataFrame({"id": [100], "x": [0.0]})
    for parts in ((1, 1), (2, 1), (6, 1)):
        found = found_of(NearestNeighbors(key="id", neighbors=4), rows, query, parts)
        assert found["neighbor"].to_list() == [1, 3, 5, 7]
    alike = pl.DataFrame({"id": range(500), "x": 1.0})
    for method in ("exact", "ivf"):
        stage = NearestNeighbors.model_validate({"key": "id", "neighbors": 3, "method": method, "exclude_self": True})
        found = found_of(stage, alike.reverse(), alike.head(2), (3, 1))
        assert found.rows() == [(0, 1, 1, 0.0), (0, 2, 2, 0.0), (0, 3, 3, 0.0), (1, 1, 0, 0.0), (1, 2, 2, 0.0), (1, 3, 3, 0.0)]


@pytest.mark.parametrize("scale", [1e-300, 1e12, 1e300])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nearest_neighbors__do_not_mind_huge_and_tiny_numbers(scale: float, metric: str) -> None:
    stage = stage_for(metric=metric)
    plain = found_of(stage, ROWS, QUERIES)
    rows, queries = (frame.with_columns(pl.col(FEATURES) * scale) for frame in (ROWS, QUERIES))
    found = found_of(stage, rows, queries)
    assert found["neighbor"].equals(plain["neighbor"])
    np.testing.assert_allclose(found["distance"] / (scale if metric == "euclidean" else 1), plain["distance"], rtol=1e-9, atol=1e-15)


def test_nearest_neighbors__are_fewer_where_there_are_fewer_rows_and_none_of_no_query() -> None:
    found = found_of(stage_for(neighbors=50), ROWS.head(3), QUERIES, (2, 2))
    assert found.height == 3 * QUERIES.height
    assert found_of(stage_for(), ROWS, QUERIES.clear()).height == 0
    with pytest.raises(DataError, match="there is no row to learn from"):
        found_of(stage_for(), ROWS.clear(), QUERIES)


def test_nearest_neighbors__fill_a_missing_value_with_the_mean_of_the_rows_or_refuse_it() -> None:
    gaps = QUERIES.with_columns(b=pl.when(pl.col("id") > "r0010").then("b"))
    with pytest.raises(DataError, match="feature 'b' is missing in 11 rows"):
        found_of(stage_for(), ROWS, gaps)
    filled = gaps.with_columns(pl.col("b").fill_null(ROWS["b"].mean()))
    assert_frame_equal(found_of(stage_for(missing="mean"), ROWS, gaps), found_of(stage_for(), ROWS, filled), rel_tol=1e-9)


def test_nearest_neighbors__refuse_what_they_cannot_use() -> None:
    cases: list[tuple[dict[str, Any], pl.DataFrame, str]] = [
        ({}, QUERIES.drop("b"), "the table given as 'queries' has no column 'b'"),
        ({}, QUERIES.with_columns(b=pl.lit("x")), "column 'b' is String, and numbers are needed"),
        ({}, QUERIES.drop("id"), "the table given as 'queries' has no column 'id'"),
        (
            {"exclude_self": True},
            QUERIES.with_columns(id=pl.int_range(pl.len())),
            "key 'id' is String in the rows and Int64 in the queries",
        ),
    ]
    for more, queries, said in cases:
        with pytest.raises(StageError, match=said):
            plan_stage(stage_for(**more), {"rows": ROWS, "queries": queries})
    zero = ROWS.with_columns(pl.when(pl.col("id") != "r0003").then(name).otherwise(0).alias(name) for name in FEATURES)
    with pytest.raises(DataError, match="the row 'r0003' is 0 in every feature and has no direction"):
        found_of(stage_for(metric="cosine"), zero, QUERIES)
    with pytest.raises(DataError, match="301 cells of 300 rows"):
        found_of(stage_for(method="ivf", cells=301), ROWS, QUERIES)


def test_nearest_pairs__ask_whether_to_go_on_before_every_block() -> None:
    asked = list[int]()
    rows = matrix(ROWS)
    found = first_pairs(nearest_pairs(rows, rows, 2, lambda: asked.append(1)), 2)
    assert asked
    assert found.queries.tolist() == np.repeat(np.arange(300), 2).tolist()
