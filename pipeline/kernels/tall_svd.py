"""Singular values and vectors of a matrix of many rows, of which only what all rows come to is held together.

Exact: R of a QR factorization of all rows has the matrix's singular values and right vectors (`principal_axes.triangle`). Randomized: a few
random directions are multiplied by A'A, made orthonormal, and again, so that they turn to the leading right vectors (Halko, Martinsson &
Tropp 2011, SIAM Rev 53:217-288); R of A times these has the values. Left vectors are A v / s, which lose their right angles by rounding
where s is small; a second QR of these restores them (Benson, Gleich & Demmel 2013, IEEE Big Data, on indirect TSQR with refinement).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.kernels.principal_axes import signed

Array = Any
MORE = 10
"""Random directions beside those that are wanted."""


class RightSide(NamedTuple):
    """Singular values `float64[k]`, descending, and right vectors `float64[p, k]`; both 0 beyond the rank. `squares` of all numbers."""

    singular: Array
    vectors: Array
    squares: float


def random_directions(columns: int, wanted: int, seed: int) -> Array:
    """Orthonormal `float64[p, min(p, wanted + 10)]`, the same for the same seed whatever holds the rows."""
    found = np.random.Generator(np.random.Philox(seed)).normal(size=(columns, min(columns, wanted + MORE)))
    return orthonormal(found)


def orthonormal(vectors: Array) -> Array:
    """Q of vectors `float64[p, k]`."""
    xp = array_module(vectors)
    with checked_linalg(xp):
        return xp.linalg.qr(vectors)[0]


def turned(values: Array, directions: Array) -> Array:
    """A'A times directions, `float64[p, k]`, of rows `float64[n, p]`."""
    return values.T @ (values @ directions)


def right_side(triangle: Array, basis: Array | None, wanted: int, rows: int, squares: float) -> RightSide:
    """The first values and vectors from R of all rows, or from R of A times a basis `float64[p, k]`.

    A value below max(rows, p) times 2.2e-16 of the largest is 0, and so are its vectors: rounding alone would decide them.
    """
    _, singular, vectors = np.linalg.svd(triangle, full_matrices=False)
    found = vectors.T if basis is None else basis @ vectors.T
    lacking = max(0, wanted - len(singular))
    singular, found = np.pad(singular[:wanted], (0, lacking)), np.pad(found[:, :wanted], ((0, 0), (0, lacking)))
    stands = singular > max(rows, len(found)) * np.finfo(float).eps * singular.max(initial=0.0)
    return RightSide(np.where(stands, singular, 0.0), np.where(stands, signed(found), 0.0), squares)


def left_vectors(values: Array, side: RightSide) -> Array:
    """A v / s, `float64[n, k]`, of rows `float64[n, p]`; 0 beyond the rank."""
    xp = array_module(values)
    by = np.where(side.singular > 0, 1 / np.where(side.singular > 0, side.singular, 1.0), 0.0)
    return (values @ xp.asarray(side.vectors)) * xp.asarray(by)


def righting(triangle: Array, side: RightSide) -> Array:
    """What left vectors are multiplied with, `float64[k, k]`, so that they stand at right angles: the inverse of R of all of them."""
    from scipy.linalg import solve_triangular

    rank = int((side.singular > 0).sum())
    found = np.zeros((len(side.singular), len(side.singular)))
    square = triangle[:rank, :rank]
    upward = np.where(np.diag(square) < 0, -1.0, 1.0)  # R with a positive diagonal, so that no vector is turned round
    found[:rank, :rank] = solve_triangular(square * upward[:, None], np.eye(rank), check_finite=False)
    return found
