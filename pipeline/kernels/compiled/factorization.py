"""Least squares of implicit feedback: equations of rows added up pair by pair, and solved row by row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import fused

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@fused
def add_pairs(
    pairs: tuple[Integers, Floats],
    ends: tuple[Integers, Integers],
    block: Floats,
    known: tuple[int, float],
    sums: tuple[Floats, Floats, Floats],
) -> None:
    """Add to Y'(C - I)Y `float64[n, f, f]`, Y'Cp `[n, f]` and the sum of confidences `[n]` what the columns of a block say.

    `pairs` are columns, which ascend in a row, and weights. `ends` are where each row's next pair is, which is moved on, and
    where its pairs end; `block: float64[some, f]` has the factors of columns from the first of `known` on, whose second is alpha.
    """
    columns, weights = pairs
    following, stops = ends
    first, alpha = known
    left, right, total = sums
    for row in range(len(stops)):
        at, stop, matrix, vector = following[row], stops[row], left[row], right[row]
        while at < stop and columns[at] < first + len(block):
            values, weight = block[columns[at] - first], alpha * weights[at]
            for i in range(len(values)):
                factor = values[i] * weight
                for j in range(len(values)):
                    matrix[i, j] += factor * values[j]
            for j in range(len(values)):
                vector[j] += (1 + weight) * values[j]
            total[row] += 1 + weight
            at += 1
        following[row] = at


@fused
def solve_each(left: Floats, ridge: Floats, right: Floats, found: Floats) -> bool:
    """Write `found: float64[n, f]`, the solutions of (left + ridge) x = right, and 0 where right is 0 altogether; False where a matrix
    is not positive definite. `left` is overwritten with the factors R of R'R."""
    f = len(ridge)
    for row in range(len(found)):
        a, x = left[row], found[row]
        x[:] = right[row]
        if not x.any():
            continue
        a += ridge
        for k in range(f):
            if not a[k, k] > 0:
                return False
            root = math.sqrt(a[k, k])
            for j in range(k, f):
                a[k, j] /= root
            for i in range(k + 1, f):
                factor = a[k, i]
                for j in range(i, f):
                    a[i, j] -= factor * a[k, j]
            x[k] /= a[k, k]
            for j in range(k + 1, f):
                x[j] -= a[k, j] * x[k]
        for k in range(f - 1, -1, -1):
            rest = x[k]
            for j in range(k + 1, f):
                rest -= a[k, j] * x[j]
            x[k] = rest / a[k, k]
    return True
