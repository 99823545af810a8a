"""The sums of a score test that leaves missing people out, and the systems of equations that they need, one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

Floats = NDArray[np.float64]


@compiled
def _decompose(a: Floats) -> tuple[float, float]:
    """The Cholesky factor of `float64[k, k]` in its lower triangle, in place; the least share of a pivot in its entry, and the last pivot.

    A pivot that is not above 0 stands as 1, with a share of 0.
    """
    least, last = 1.0, 0.0
    for row in range(len(a)):
        own = a[row, row]
        last = own
        for before in range(row):
            last -= a[row, before] * a[row, before]
        least = min(least, last / own) if last > 0 else 0.0
        root = np.sqrt(last) if last > 0 else 1.0
        a[row, row] = root
        for below in range(row + 1, len(a)):
            value = a[below, row]
            for before in range(row):
                value -= a[below, before] * a[row, before]
            a[below, row] = value / root
    return least, last


@compiled
def _forward(a: Floats, b: Floats) -> None:
    """Turns `b: float64[k, s]` into L^-1 b, in place."""
    for row in range(len(a)):
        for before in range(row):
            factor = a[row, before]
            for column in range(b.shape[1]):
                b[row, column] -= factor * b[before, column]
        for column in range(b.shape[1]):
            b[row, column] /= a[row, row]


@compiled
def fill_missing_people(calls: NDArray[np.uint8], people: NDArray[np.int64]) -> None:
    """Into `people`, the samples of the missing calls of `uint8[v, w]`, variant by variant; there is room for them all."""
    found = 0
    for v in range(calls.shape[0]):
        row = calls[v]
        for byte in range(len(row)):
            bits = row[byte] & (row[byte] >> 1) & 0x55
            if bits:
                for field in range(4):
                    if bits >> (2 * field) & 1:
                        people[found] = 4 * byte + field
                        found += 1


@compiled
def _take_off(people: NDArray[np.int64], values: Floats, a: Floats, b: Floats, sums: Floats) -> tuple[float, float]:
    """Takes people's products off a = z'wz (lower triangle), b = [.., z'r] and sums of w z; their residuals' sum, how many are cases."""
    columns = len(a)
    residuals = cases = 0.0
    for person in people:
        value = values[person]
        residual, weight = value[columns], value[columns + 1]
        residuals += residual
        cases += residual > 0
        for row in range(columns):
            factor = weight * value[row]
            sums[row] -= factor
            b[row, 1] -= value[row] * residual
            for column in range(row + 1):
                a[row, column] -= factor * value[column]
    return residuals, cases


@compiled
def score_each(products: Floats, squares: Floats, missing: Any, values: Floats, found: Any) -> None:
    """Score tests from the products of v variants' calls with n people's values.

    `values: float64[n, k + 2]` are the whitened basis z (its first column constant, above 0), residual r and weight w; `products:
    float64[v, k + 1 or more]` the sums of g w z and g r, `squares: float64[v]` of g^2 w; `missing` the first place (`int64[v + 1]`) and
    the people of each variant's missing calls. `found` are `float64[v]` to fill: U, g'Wg from the mean, V, the least share of a pivot,
    and cases among the missing.
    """
    starts, people = missing
    score, own, information, least, cases = found
    columns = values.shape[1] - 2
    a, b, sums = np.empty((columns, columns)), np.empty((columns, 2)), np.empty(columns)
    constant = values[:, 0].max()
    for v in range(len(products)):
        for row in range(columns):
            for column in range(columns):
                a[row, column] = 1.0 if row == column else 0.0
        b[:] = 0.0
        sums[:] = 0.0
        # The weights' sum is that of w z over the constant z, and 1 / constant^2 over all people, for z is orthonormal under w.
        sums[0] = 1 / constant
        residuals, cases[v] = _take_off(people[starts[v] : starts[v + 1]], values, a, b, sums)
        mean = products[v, 0] / sums[0]
        for row in range(columns):
            b[row, 0] = products[v, row] - mean * sums[row]
        score[v] = products[v, columns] + mean * residuals
        own[v] = squares[v] - mean * products[v, 0] / constant
        least[v], information[v] = 1.0, own[v]
        if starts[v + 1] > starts[v]:
            least[v], _ = _decompose(a)
            _forward(a, b)
        for row in range(columns):
            information[v] -= b[row, 0] * b[row, 0]
            score[v] -= b[row, 0] * b[row, 1]
