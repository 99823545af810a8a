"""Least squares from exact sums: centred as whole numbers, solved in 150 decimal digits, and only the answer is a float.

Sums of squares lose twice the digits that the rows lose; here they have them to lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from pipeline.errors import DataError
from pipeline.kernels.p_values import t_test_p_values
from pipeline.stages.models._pooled.pooling import Pooled

PRECISION = 150
COLLINEAR = Decimal("1e-20")
"""The share of a feature's variance that features before it do not explain, from which on it counts as a sum of them."""

EXACT = Decimal("1e-100")
"""The share of the target's variance below which nothing is left over: rounding of the last of the digits."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Solution:
    """Least squares of `n` rows: the intercept and p coefficients, errors, t and p-values `float64[1 + p]`, NaN where the fit is exact.

    `names` are the intercept's and the features', `means` those of features and target, `float64[p + 1]`.
    """

    names: tuple[str, ...]
    target: str
    means: Array
    coefficients: Array
    errors: Array
    statistics: Array
    p_values: Array
    rows: int
    r_squared: float
    residual_variance: float

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.rows - len(self.names)


def solved(sums: Pooled) -> Solution:
    """Ordinary least squares with an intercept. Raises DataError for too few rows, and columns that do not vary or are collinear."""
    intercept, *columns = sums.agreed.columns
    features, rows = columns[:-1], sums.rows
    if (freedom := rows - len(columns)) < 1:
        raise DataError(
            f"{rows} rows of all sites for {len(columns)} coefficients; at least {len(columns) + 1} are needed. Leave features out."
        )
    totals = [sums.entries[intercept, name] for name in columns]
    centred = _centred(sums, columns, totals)
    with localcontext(prec=PRECISION):
        unit = Decimal(4) ** sums.agreed.digits
        products = np.array([[Decimal(value) / unit for value in row] for row in centred], object)
        means = np.array([Decimal(total) / unit / rows for total in totals], object)
        roots = np.array([value.sqrt() for value in products.diagonal()], object)
        swept = _swept(products / np.outer(roots, roots), features)
        residual = swept[-1, -1] if swept[-1, -1] > EXACT else Decimal(0)
        variance = residual * products[-1, -1] / rows / freedom
        slopes = swept[:-1, -1] * roots[-1] / roots[:-1]
        inverse = swept[:-1, :-1] / np.outer(roots[:-1], roots[:-1]) * rows
        at_zero = means[-1] - slopes @ means[:-1]
        spread = [Decimal(1) / rows + means[:-1] @ inverse @ means[:-1], *inverse.diagonal()]
        coefficients = np.array([float(value) for value in (at_zero, *slopes)])
        errors = np.array([float((variance * value).sqrt()) for value in spread])
        middle = means.astype(np.float64)
        shown = float(1 - residual), float(variance)
    statistics = np.divide(coefficients, errors, out=np.full_like(errors, np.nan), where=errors > 0)
    p_values = t_test_p_values(statistics, np.array(freedom))[0]
    return Solution((intercept, *features), columns[-1], middle, coefficients, errors, statistics, p_values, rows, *shown)


def _centred(sums: Pooled, columns: Sequence[str], totals: Sequence[int]) -> list[list[int]]:
    """Rows times the sums of products about the means, exactly: n sum(x y) - sum(x) sum(y), in units of 2^(-2 digits).

    Raises DataError for a column that does not vary, or whose sums no rows can have.
    """
    upper, unit = sums.entries, 1 << (2 * sums.agreed.digits)
    found = [
        [sums.rows * (upper[x, y] if (x, y) in upper else upper[y, x]) - totals[i] * totals[j] // unit for j, y in enumerate(columns)]
        for i, x in enumerate(columns)
    ]
    for at, name in enumerate(columns):
        what = "target" if name == columns[-1] else "feature"
        if found[at][at] == 0:
            raise DataError(f"{what} {name!r} has one value in all rows of all sites; there is nothing to learn of it. Leave it out.")
        if found[at][at] < 0:
            raise DataError(f"no rows have such sums of {what} {name!r}: a site's table was changed. Take the files of all sites again.")
    return found


def _swept(matrix: Array, features: Sequence[str]) -> Array:
    """A correlation matrix of features and target swept by the features (Goodnight 1979): inverse, coefficients, and 1 - R^2 in the corner.

    Raises DataError for a feature that is a sum of those before it.
    """
    for k, name in enumerate(features):
        pivot = matrix[k, k]
        if pivot < COLLINEAR:
            raise DataError(
                f"feature {name!r} is a weighted sum of {', '.join(map(repr, features[:k]))}: they are collinear. Leave one out."
            )
        row, column = matrix[k] / pivot, matrix[:, k].copy()
        matrix = matrix - np.outer(column, row)
        matrix[k], matrix[:, k] = row, -column / pivot
        matrix[k, k] = 1 / pivot
    return matrix
