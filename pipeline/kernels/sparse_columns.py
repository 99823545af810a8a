"""Columns of numbers that are nearly all 0 (words, baskets), less their means in units of their spread: products by what is not 0 alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.kernels.genotypes import Array

FEW = 0.1
"""Share of numbers that are not 0 up to which products go by these alone."""
FAR = 1e3
"""Means, in units of their column's spread, that may be taken off after a product: of 16 digits three are lost."""


def is_sparse(numbers: Array) -> bool:
    """Whether products of `numbers: [n, c]` in a processor's memory go by those that are not 0 alone."""
    return isinstance(numbers, np.ndarray) and numbers.size > 0 and bool(np.count_nonzero(numbers) <= FEW * numbers.size)


def compact(numbers: Array) -> Any:
    """SciPy's CSR matrix of `numbers: [n, c]` that are sparse; others as they are."""
    if not is_sparse(numbers):
        return numbers
    from scipy.sparse import csr_array

    return csr_array(numbers)


@dataclass(frozen=True)
class SparseColumns:
    """A matrix `[n, 1 + c]` of ones, and of c columns of numbers less their means, over their spread."""

    values: Any
    """SciPy's CSR matrix of the same before means are taken off."""
    shift: Array
    """`float64[1 + c]`: means over spreads, 0 of the ones."""

    @classmethod
    def of(cls, numbers: Array, means: Array, scales: Array) -> SparseColumns | None:
        """Of `numbers: float64[n, c]`, NaN where missing, which is the mean; None where too many are not 0, or means lie far from it."""
        if not is_sparse(numbers) or (abs(means) > FAR * scales).any():
            return None
        from scipy.sparse import csr_array, hstack

        known = csr_array(numbers)
        column = known.indices
        known.data = np.where(np.isnan(known.data), means[column], known.data) / scales[column]
        return cls(csr_array(hstack([np.ones((len(numbers), 1)), known])), np.append(0.0, means / scales))

    def __getitem__(self, rows: slice) -> SparseColumns:
        """Some of its rows."""
        return SparseColumns(self.values[rows], self.shift)

    def __matmul__(self, columns: Array) -> Array:
        """The product with `columns: float64[1 + c, m]`."""
        return self.values @ columns - self.shift @ columns

    @property
    def T(self) -> Transposed:  # noqa: N802 - as NumPy's
        """Its transpose."""
        return Transposed(self)


@dataclass(frozen=True)
class Transposed:
    """The transpose of sparse columns."""

    of: SparseColumns

    def __matmul__(self, rows: Array) -> Array:
        """The product with `rows: float64[n, ...]`."""
        return self.of.values.T @ rows - np.multiply.outer(self.of.shift, rows.sum(axis=0))
