"""Least squares from sums over rows: by the Gram matrix, and by triangular factors where that has lost too many digits.

Factors of parts are stacked and factored again (Demmel, Grigori, Hoemmen & Langou 2012, SIAM J Sci Comput 34:A206-A239). A column that
earlier ones explain up to COLLINEAR of its length is left out, as R's lm does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg, to_host
from pipeline.kernels.genotypes import Array

Host = np.ndarray[Any, Any]

COLLINEAR = 1e-7
SAFE_PIVOT = 1e-5
"""Share of a column's square that the others leave, down to which the Gram matrix gives ten digits."""


def gram_sums(columns: Array) -> Host:
    """`columns' columns`, of `[n, c]`, on the host."""
    gram: Host = to_host(columns.T @ columns)
    return gram


def triangle(columns: Array) -> Host:
    """The triangular factor R of `columns [n, c]`, `[min(n, c), c]`, on the host: R'R is their Gram matrix."""
    if not len(columns):
        return np.zeros((0, columns.shape[1]))
    xp = array_module(columns)
    with checked_linalg(xp):
        factor: Host = to_host(xp.linalg.qr(columns, mode="r"))
    return factor


def stacked(factors: list[Host]) -> Host:
    """The factor of rows whose factors these are."""
    return triangle(np.concatenate(factors))


def factored(gram: Host) -> Host | None:
    """The factor of columns with this Gram matrix; None where it would give less than ten digits.

    So it is where a column is nearly what those before it add up to, the last one (the target) too.
    """
    try:
        factor: Host = np.linalg.cholesky(gram).T
    except np.linalg.LinAlgError:
        return None
    return factor if (factor.diagonal() ** 2 > SAFE_PIVOT * gram.diagonal()).all() else None


def independent(factor: Host, lengths: Host) -> Host:
    """Places of the columns that no earlier ones explain, of their factor `[c, c]` and their `lengths [c]`."""
    kept = np.arange(factor.shape[1])
    factor = factor[: len(kept)]
    while True:
        pivots = np.zeros(len(kept))
        pivots[: len(factor)] = np.abs(factor.diagonal())
        low = np.flatnonzero(pivots <= COLLINEAR * lengths[kept])
        if not len(low):
            return kept
        factor, kept = np.delete(factor, low[0], axis=1), np.delete(kept, low[0])
        if not len(kept):
            return kept
        factor = stacked([factor])


@dataclass(frozen=True)
class LeastSquares:
    """Coefficients `float64[c]`, the sum of squared residuals, and the inverse of the Gram matrix `float64[c, c]`."""

    coefficients: Host
    residual: float
    inverse: Host


def least_squares(factor: Host) -> LeastSquares:
    """Of the factor of the columns and the target after them, `[c + 1, c + 1]`, of columns that are independent."""
    from scipy.linalg import solve_triangular

    columns = factor.shape[1] - 1
    square = np.zeros((columns + 1, columns + 1))
    square[: len(factor)] = factor[: columns + 1]
    upper, target = square[:columns, :columns], square[:columns, columns]
    back = solve_triangular(upper, np.column_stack([target[:, None], np.eye(columns)]), check_finite=False)
    return LeastSquares(back[:, 0], float(square[columns, columns] ** 2), back[:, 1:] @ back[:, 1:].T)
