"""Principal axes of rows of numbers: from the triangle of a QR factorization, block upon block, or from products with a few vectors.

Of few columns the rows are reduced to a triangle R, with R'R = X'X (Demmel et al. 2012, SIAM J Sci Comput 34:A206-A239), whose singular
values keep digits that those of the matrix of products, whose condition is squared, would lose. Of many columns X'X is only multiplied
with vectors (`randomized_pca`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg, to_host
from pipeline.kernels.distances import row_blocks

Array = Any
NOTHING = 1e-12
"""A singular value below that share of the first one is none: its axis is not determined."""
_LARGE = 1e-9
"""Shares of an axis's largest component within which another counts as large, too."""


class Axes(NamedTuple):
    """Singular values `float64[k]`, descending, axes `float64[d, k]` of unit length, and the sum of all squares."""

    singular: Array
    vectors: Array
    squares: float


def triangle(rows: Array) -> Array:
    """R `float64[min(n, d), d]` of rows `[n, d]`, with R'R = X'X; what several blocks give is stacked and reduced again by this."""
    xp = array_module(rows)
    found = rows[:0]
    step = 4 * rows.shape[1]
    blocks = row_blocks(rows, rows.shape[1]) if len(rows) > step else [slice(0, len(rows))]
    for at in blocks:
        with checked_linalg(xp):
            found = xp.linalg.qr(xp.concatenate([found, rows[at]]), mode="r")
    return found


def joined(found: Sequence[Array]) -> Array:
    """R of several blocks, in the host's memory."""
    return triangle(np.concatenate([to_host(one) for one in found]))


def axes_of(found: Array, components: int) -> Axes:
    """The first axes from R. One beyond the rank is 0, and so is its singular value."""
    _, singular, vectors = np.linalg.svd(found, full_matrices=False)
    return determined(singular, vectors.T, components, float((found**2).sum()))


def determined(singular: Array, vectors: Array, components: int, squares: float) -> Axes:
    """So many axes with their signs, those that are not determined set to 0; zeros for those that are lacking."""
    lacking = max(0, components - len(singular))
    singular = np.pad(singular[:components], (0, lacking))
    vectors = np.pad(vectors[:, :components], ((0, 0), (0, lacking)))
    stands = singular > NOTHING * singular.max(initial=0.0)
    return Axes(np.where(stands, singular, 0.0), np.where(stands, signed(vectors), 0.0), squares)


def signed(vectors: Array) -> Array:
    """The columns of `float64[d, k]`, each with the sign that makes its largest component positive: the first of those equally large."""
    size = abs(vectors)
    largest = (size >= size.max(axis=0) * (1 - _LARGE)).argmax(axis=0)
    return vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
