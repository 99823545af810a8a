"""Symmetric systems of equations of many variants, some at a time beside each other, so that every step is one of vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, fused

Floats = NDArray[np.float64]


_LANES = 8


@fused
def _factor(a: Floats, roots: Floats, bounds: Floats) -> None:
    """Cholesky's factor in the upper triangle of the first columns of `a: float64[k, k + s, lanes]`, and its inverse times the others.

    `roots: float64[k, lanes]` become the reciprocals of the factor's diagonal, `bounds: float64[3, lanes]` what `Solved` has beside. A
    pivot that is not above 0 stands as 1, with a share of 0.
    """
    total = np.empty(_LANES)
    for row in range(len(a)):
        for column in range(row, a.shape[1]):
            for lane in range(_LANES):
                total[lane] = a[row, column, lane]
            for before in range(row):
                for lane in range(_LANES):
                    total[lane] -= a[before, row, lane] * a[before, column, lane]
            if column == row:
                for lane in range(_LANES):
                    above = total[lane] > 0
                    pivot = total[lane] if above else 1.0
                    bounds[0, lane] = min(bounds[0, lane], pivot / a[row, row, lane]) if above else 0.0
                    bounds[1, lane] = total[lane]
                    bounds[2, lane] += np.log(pivot)
                    roots[row, lane] = 1 / np.sqrt(pivot)
            else:
                for lane in range(_LANES):
                    a[row, column, lane] = total[lane] * roots[row, lane]


@compiled
def _load(matrices: Floats, start: int, lanes: int, a: Floats, bounds: Floats) -> None:
    """The upper triangles of some matrices beside each other, ones where they are fewer than the lanes."""
    a[:] = 1.0
    bounds[0], bounds[2] = 1.0, 0.0
    for lane in range(lanes):
        for row in range(matrices.shape[1]):
            for column in range(row, matrices.shape[1]):
                a[row, column, lane] = matrices[start + lane, row, column]


@fused
def _back(a: Floats, roots: Floats) -> None:
    """The factor's transposed inverse times the last columns."""
    size, total = len(a), np.empty(_LANES)
    for row in range(size - 1, -1, -1):
        for column in range(size, a.shape[1]):
            for lane in range(_LANES):
                total[lane] = a[row, column, lane]
            for after in range(row + 1, size):
                for lane in range(_LANES):
                    total[lane] -= a[row, after, lane] * a[after, column, lane]
            for lane in range(_LANES):
                a[row, column, lane] = total[lane] * roots[row, lane]


@compiled
def solve_each(matrices: Floats, right: Floats, last: Floats, least: Floats, determinant: Floats) -> None:
    """Solutions in place of `right: float64[v, k, s]`, and what else `Solved` has, of matrices `float64[v, k, k]`."""
    size, sides = right.shape[1:]
    a, roots, bounds = np.empty((size, size + sides, _LANES)), np.empty((size, _LANES)), np.empty((3, _LANES))
    for start in range(0, len(matrices), _LANES):
        lanes = min(_LANES, len(matrices) - start)
        _load(matrices, start, lanes, a, bounds)
        for lane in range(lanes):
            for row in range(size):
                for side in range(sides):
                    a[row, size + side, lane] = right[start + lane, row, side]
        _factor(a, roots, bounds)
        _back(a, roots)
        for lane in range(lanes):
            least[start + lane], last[start + lane], determinant[start + lane] = bounds[0, lane], bounds[1, lane], bounds[2, lane]
            for row in range(size):
                for side in range(sides):
                    right[start + lane, row, side] = a[row, size + side, lane]


@fused
def _turn(a: Floats, roots: Floats, b: Floats) -> None:
    """The factor's inverse into the upper triangle of b."""
    total = np.empty(_LANES)
    for column in range(len(a)):
        for lane in range(_LANES):
            b[column, column, lane] = roots[column, lane]
        for row in range(column - 1, -1, -1):
            total[:] = 0.0
            for after in range(row + 1, column + 1):
                for lane in range(_LANES):
                    total[lane] -= a[row, after, lane] * b[after, column, lane]
            for lane in range(_LANES):
                b[row, column, lane] = total[lane] * roots[row, lane]


@fused
def invert_each(matrices: Floats, inverses: Floats, least: Floats, determinant: Floats) -> None:
    """Inverses of matrices `float64[v, k, k]`, and what else `Solved` has: those of the factors times their transposes."""
    size = matrices.shape[1]
    a, b, roots, bounds = np.empty((size, size, _LANES)), np.empty((size, size, _LANES)), np.empty((size, _LANES)), np.empty((3, _LANES))
    total = np.empty(_LANES)
    for start in range(0, len(matrices), _LANES):
        lanes = min(_LANES, len(matrices) - start)
        _load(matrices, start, lanes, a, bounds)
        _factor(a, roots, bounds)
        _turn(a, roots, b)
        for row in range(size):
            for column in range(row, size):
                total[:] = 0.0
                for after in range(column, size):
                    for lane in range(_LANES):
                        total[lane] += b[row, after, lane] * b[column, after, lane]
                for lane in range(lanes):
                    inverses[start + lane, row, column] = inverses[start + lane, column, row] = total[lane]
        for lane in range(lanes):
            least[start + lane], determinant[start + lane] = bounds[0, lane], bounds[2, lane]


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
