"""Lloyd's rounds by blocks of rows: scikit-learn's from the same centers, where clusters lose all rows too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.kernels import distances
from pipeline.kernels.distances import assigned, products, squares
from pipeline.kernels.k_means import Lloyd, added, lloyd_sums, plus_plus, started, stepped


def lloyd(rows: Any, centers: Any, blocks: int, rounds: int = 50) -> Lloyd:
    order, state = np.arange(len(rows), dtype=float), started(centers)
    places = np.array_split(np.arange(len(rows)), blocks)
    while not state.done and state.rounds < rounds:
        state = stepped(state, added([lloyd_sums(rows[at], order[at], state.centers) for at in places]), 0.0)
    return state


def points(rows: int = 400, features: int = 3) -> Any:
    return np.random.default_rng(5).normal(size=(rows, features))


@pytest.mark.parametrize("blocks", [1, 3, 401])
@pytest.mark.parametrize("far", [0, 1, 3])
def test_lloyd__moves_empty_clusters_to_the_farthest_rows_as_scikit_learn_does(blocks: int, far: int) -> None:
    from sklearn.cluster import KMeans

    rows = points() - points().mean(axis=0)
    centers = rows[:7].copy()
    centers[:far] += 1e3
    found = lloyd(rows, centers, blocks)
    oracle = KMeans(7, init=centers, n_init=1, tol=0, max_iter=50, algorithm="lloyd").fit(rows)
    np.testing.assert_allclose(found.centers, oracle.cluster_centers_, rtol=1e-10)
    assert found.rounds == oracle.n_iter_


def test_plus_plus__takes_rows_far_from_one_another_and_others_for_another_seed() -> None:
    rows = np.repeat(np.eye(4) * 100, 50, axis=0) + points(200, 4)
    centers = plus_plus(rows, 4, np.random.default_rng(1))
    assert sorted(centers.argmax(axis=1).tolist()) == [0, 1, 2, 3]
    assert not np.array_equal(centers, plus_plus(rows, 4, np.random.default_rng(2)))
    assert np.array_equal(plus_plus(rows[:1], 3, np.random.default_rng(1)), rows[[0, 0, 0]])


def test_squares__are_the_same_for_a_row_alone_and_those_of_a_product_to_rounding() -> None:
    rows, centers = points(500, 9), points(7, 9)
    whole = squares(rows, centers)
    assert all(np.array_equal(squares(rows[at : at + 1], centers)[0], whole[at]) for at in range(500))
    np.testing.assert_allclose(products(rows, centers), whole, rtol=1e-10, atol=1e-13)
    assert assigned(rows[:0], centers)[0].shape == (0,)


@pytest.mark.parametrize("shape", [(500, 9, 7), (3, 1, 1), (40, 2, 40), (0, 4, 3)])
@pytest.mark.parametrize("whole", [False, True])
def test_compiled__finds_what_products_find(shape: tuple[int, int, int], whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, centers = points(shape[0], shape[1]), np.random.default_rng(8).normal(size=(shape[2], shape[1]))
    if whole:  # so that points are equally near
        rows, centers = np.rint(rows * 2), np.rint(centers * 2)
    found, sums = assigned(rows, centers), lloyd_sums(rows, np.arange(len(rows)), centers)
    monkeypatch.setattr(distances, "COMPILED", 0)
    for one, other in zip(found, assigned(rows, centers), strict=True):
        assert np.array_equal(one, other)
    plain = lloyd_sums(rows, np.arange(len(rows)), centers)
    for one, other in zip((*sums[:3], *sums.far), (*plain[:3], *plain.far), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
