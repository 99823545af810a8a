"""Products of rows with columns in one order of operations: the same for a row wherever it stands, which BLAS does not give."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.compiled.jit import compiled, inlined

FEW = 10
"""Of so many numbers of a row at most one is not 0, where it goes by these alone."""
FAR = 1e3
"""Means, in units of how far a number lies from its own, that may be taken off by themselves: of 16 digits three are lost."""


@compiled
def add_products(rows: Any, columns: Any, found: Any, means: Any) -> None:
    """Add to each row of `found: float64[n, m]` every number of `rows: float64[n, p]` less its mean times its columns, in order.

    `means: float64[p]`, `columns: float64[p, m]`; a missing number, NaN, adds nothing. A row of which nearly all is 0 gets what a row of
    zeros gets, and what its other numbers add to that: which way a row goes, it says itself.
    """
    of_zeros = np.zeros(columns.shape[1])
    for place in range(len(means)):
        for column in range(columns.shape[1]):
            of_zeros[column] -= means[place] * columns[place, column]
    for row in range(len(rows)):
        if _is_sparse(rows[row], means):
            for column in range(columns.shape[1]):
                found[row, column] += of_zeros[column]
            for place in range(len(means)):
                value = rows[row, place]
                if value != 0.0:
                    value = value if value == value else means[place]
                    for column in range(columns.shape[1]):
                        found[row, column] += value * columns[place, column]
        else:
            for place in range(len(means)):
                apart = rows[row, place] - means[place]
                if apart == apart:
                    for column in range(columns.shape[1]):
                        found[row, column] += apart * columns[place, column]


@inlined
def _is_sparse(numbers: Any, means: Any) -> Any:
    """Whether few of a row's numbers are not 0, and none is so near a mean far from 0 that digits would be lost."""
    few = 0
    for place in range(len(numbers)):
        value = numbers[place]
        if value != 0.0:
            few += 1
            if FEW * few > len(numbers) or abs(means[place]) > FAR * abs(value - means[place]):
                return False
    return True
