"""Symmetric systems of equations of many variants, some at a time beside each other, so that every step is one of vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

Floats = NDArray[np.float64]


_LANES = 16


@compiled
def _subtract(out: Floats, a: Floats, b: Floats) -> None:
    """Takes a times b off."""
    for lane in range(len(out)):
        out[lane] -= a[lane] * b[lane]


@compiled
def _reduce(a: Floats, roots: Floats, bounds: Floats) -> None:
    """Cholesky's factor in the upper triangle of the first columns of `a: float64[k, k + s, lanes]`, and its inverse times the others.

    `roots: float64[k, lanes]` become the reciprocals of the factor's diagonal, `bounds: float64[3, lanes]` what `Solved` has beside. A
    pivot that is not above 0 stands as 1, with a share of 0.
    """
    least, last, determinant = bounds
    for row in range(len(a)):
        entry, root = a[row, row], roots[row]
        last[:] = entry
        for before in range(row):
            _subtract(last, a[before, row], a[before, row])
        for lane in range(len(last)):
            above = last[lane] > 0
            pivot = last[lane] if above else 1.0
            least[lane] = min(least[lane], pivot / entry[lane]) if above else 0.0
            determinant[lane] += np.log(pivot)
            root[lane] = 1 / np.sqrt(pivot)
        for column in range(row + 1, a.shape[1]):
            for before in range(row):
                _subtract(a[row, column], a[before, row], a[before, column])
            a[row, column] *= root


@compiled
def solve_each(matrices: Floats, right: Floats, last: Floats, least: Floats, determinant: Floats) -> None:
    """Solutions in place of `right: float64[v, k, s]`, and what else `Solved` has, of matrices `float64[v, k, k]`."""
    size, sides = right.shape[1:]
    a, roots, bounds = np.empty((size, size + sides, _LANES)), np.empty((size, _LANES)), np.empty((3, _LANES))
    for start in range(0, len(matrices), _LANES):
        lanes = min(_LANES, len(matrices) - start)
        a[:] = 1.0
        bounds[0], bounds[2] = 1.0, 0.0
        for lane in range(lanes):
            for row in range(size):
                a[row, row:size, lane] = matrices[start + lane, row, row:]
                a[row, size:, lane] = right[start + lane, row]
        _reduce(a, roots, bounds)
        for row in range(size - 1, -1, -1):
            for column in range(size, size + sides):
                for after in range(row + 1, size):
                    _subtract(a[row, column], a[row, after], a[after, column])
                a[row, column] *= roots[row]
        for lane in range(lanes):
            least[start + lane], last[start + lane], determinant[start + lane] = bounds[0, lane], bounds[1, lane], bounds[2, lane]
            right[start + lane] = a[:, size:, lane]


@compiled
def fill_squares(pairs: Floats, cross: Floats, own: Floats, squares: Floats) -> None:
    """What `squares_plain` gives, into `squares`."""
    columns = cross.shape[1]
    for v in range(len(pairs)):
        square, place = squares[v], 0
        for row in range(columns):
            for column in range(row, columns):
                square[row, column] = square[column, row] = pairs[v, place]
                place += 1
            square[row, columns] = square[columns, row] = cross[v, row]
        square[columns, columns] = own[v]


@compiled
def fill_pairs(squares: Floats, pairs: Floats) -> None:
    """What `pairs_plain` gives, into `pairs`."""
    columns = squares.shape[1] - 1
    for v in range(len(squares)):
        place = 0
        for row in range(columns):
            pairs[v, place] = squares[v, row, row]
            for column in range(row + 1, columns):
                pairs[v, place + column - row] = 2 * squares[v, row, column]
            place += columns - row
