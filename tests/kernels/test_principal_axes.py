"""Triangles of blocks of rows: the singular values and axes of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.kernels.principal_axes import axes_of, joined, signed, triangle


@pytest.mark.parametrize("sizes", [[300], [0, 5, 295], [1] * 300, [2, 298]])
def test_axes__of_blocks_are_numpys_of_all_rows(sizes: list[int]) -> None:
    rows = np.random.default_rng(2).normal(size=(300, 8)) * np.geomspace(1, 1e-9, 8)
    blocks = np.split(rows, np.cumsum(sizes)[:-1])
    found = axes_of(joined([triangle(block) for block in blocks]), 8)
    _, singular, vectors = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(found.singular, singular, rtol=1e-6)
    np.testing.assert_allclose(found.vectors, signed(vectors.T), atol=1e-6)
    assert found.squares == pytest.approx((rows**2).sum())


def test_axes__of_fewer_rows_than_are_asked_for_end_in_zeros() -> None:
    found = axes_of(triangle(np.array([[3.0, 4.0, 0.0]])), 2)
    assert found.singular.tolist() == pytest.approx([5, 0])
    np.testing.assert_allclose(found.vectors.T, [[0.6, 0.8, 0.0], [0.0, 0.0, 0.0]])


def test_signed__makes_the_first_of_equally_large_components_positive() -> None:
    assert signed(np.array([[-0.6, 0.1], [0.6, -0.9]])).tolist() == [[0.6, -0.1], [-0.6, 0.9]]
    nearly = signed(np.array([[-0.5], [0.5 + 1e-14]]))
    assert nearly[0, 0] > 0
