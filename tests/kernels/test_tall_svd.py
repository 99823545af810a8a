from __future__ import annotations

import numpy as np

from pipeline.kernels.principal_axes import triangle
from pipeline.kernels.tall_svd import left_vectors, orthonormal, random_directions, right_side, righting, turned

RNG = np.random.default_rng(6)
VALUES = np.linalg.qr(RNG.normal(size=(200, 8)))[0] * 10.0 ** -np.arange(8.0) @ np.linalg.qr(RNG.normal(size=(8, 8)))[0]


def test_left_vectors__stand_at_right_angles_once_they_are_righted() -> None:
    side = right_side(triangle(VALUES), None, 8, 200, 1.0)
    left = left_vectors(VALUES, side)
    assert abs(left.T @ left - np.eye(8)).max() > 1e-12
    left = left @ righting(triangle(left), side)
    np.testing.assert_allclose(left.T @ left, np.eye(8), atol=1e-14)
    np.testing.assert_allclose((left * side.singular) @ side.vectors.T, VALUES, atol=1e-15)


def test_random_directions__turn_to_the_leading_vectors() -> None:
    basis = random_directions(8, 1, 5)
    np.testing.assert_array_equal(basis, random_directions(8, 1, 5))
    assert (basis != random_directions(8, 1, 6)).any()
    basis = basis[:, :3]
    for _ in range(4):
        basis = orthonormal(turned(VALUES, basis))
    theirs = np.linalg.svd(VALUES)
    side = right_side(triangle(VALUES @ basis), basis, 2, 200, 1.0)
    np.testing.assert_allclose(side.singular, theirs.S[:2], rtol=1e-12)
    np.testing.assert_allclose(abs(side.vectors.T @ theirs.Vh[:2].T), np.eye(2), atol=1e-6)
