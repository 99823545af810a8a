"""Products of rows with columns in one order of operations: the same for a row wherever it stands, which BLAS does not give."""

from __future__ import annotations

from typing import Any

from pipeline.kernels.compiled.jit import compiled


@compiled
def add_products(rows: Any, columns: Any, found: Any, means: Any) -> None:
    """Add to each row of `found: float64[n, m]` every number of `rows: float64[n, p]` less its mean times its columns, in order.

    `means: float64[p]`, `columns: float64[p, m]`; a missing number, NaN, adds nothing.
    """
    for row in range(len(rows)):
        for place in range(len(means)):
            apart = rows[row, place] - means[place]
            if apart == apart:
                for column in range(columns.shape[1]):
                    found[row, column] += apart * columns[place, column]
