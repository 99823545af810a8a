"""Rows times columns, number by number: the same for a row wherever it stands, which a matrix product does not give."""

from __future__ import annotations

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array

MANY = 4_096
"""Numbers of all columns from which a compiled loop, which takes a while to load, is worth it."""


def add_products(rows: Array, columns: Array, found: Array, means: Array | None = None) -> None:
    """Add to `found: float64[n, m]` the products of `rows: float64[n, p]` and `columns: float64[p, m]`.

    With `means: float64[p]` each number counts less its mean, and a missing one, NaN, adds nothing. Of many columns, on a CPU, a row that
    is nearly all 0 (words of a text) goes by its other numbers alone.
    """
    xp = array_module(rows)
    if xp is np and columns.size >= MANY:
        from pipeline.kernels.compiled import row_products

        means = np.zeros(len(columns)) if means is None else means
        row_products.add_products(np.ascontiguousarray(rows, np.float64), np.ascontiguousarray(columns), found, means)
        return
    for place in range(len(columns)):
        values = rows[:, place]
        if means is not None:
            values = xp.where(xp.isnan(values), 0.0, values - means[place])
        found += values[:, None] * columns[place]
