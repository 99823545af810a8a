"""The n-th number of each row of a matrix, in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any

FEW = 64
"""Numbers a row up to which keeping them in order as the others come by costs less than a partition."""


def nth_greatest(found: Array, n: int) -> Array:
    """The n-th greatest of each row of `found: float64[r, c]`, n from 1 to c, `float64[r]`."""
    width = found.shape[1]
    return _nth(found, n, 1.0) if _is_few(found, n) else array_module(found).partition(found, width - n, axis=1)[:, width - n]


def nth_least(found: Array, n: int) -> Array:
    """The n-th least of each row of `found: float64[r, c]`, n from 1 to c, `float64[r]`; inf or NaN where fewer are numbers."""
    return _nth(found, n, -1.0) if _is_few(found, n) else array_module(found).partition(found, n - 1, axis=1)[:, n - 1]


def _is_few(found: Array, n: int) -> bool:
    """Whether to look at each number once, in a CPU's memory."""
    return array_module(found) is np and n <= FEW


def _nth(found: Array, n: int, sign: float) -> Array:
    from pipeline.kernels.compiled.best_columns import nth_greatest as compiled_nth

    nth = np.empty(len(found))
    compiled_nth(np.ascontiguousarray(found), n, sign, nth)
    return sign * nth
