"""Ridge systems (A + penalty) x = b of one matrix and several penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.kernels.genotypes import Array
from pipeline.kernels.lapack import cholesky_factor, cholesky_solved

_REFINED = 1e-7
"""Least relative residual at which what a float32 factor gave is taken; each step of refinement gains some three digits."""
_STEPS = 6


def ridge_effects(matrix: Array, right: Array, penalties: Sequence[float], *, single: bool = False) -> Array:
    """`float64[h, v, t]`: (A + penalty) x = b of a symmetric, positive semidefinite A `float64[v, v]` and b `float64[v, t]`.

    `single`: factored in float32, and refined with residuals in float64, which gives what float64 does where it converges; where it does
    not, float64 factors it. Penalties are above 0.
    """
    xp = array_module(matrix)
    found = xp.empty((len(penalties), *right.shape))
    for place, penalty in enumerate(penalties):
        shifted = matrix.copy()
        shifted[xp.arange(len(matrix)), xp.arange(len(matrix))] += penalty
        quick = _solved_in_single(shifted, right) if single else None
        with checked_linalg(xp):
            found[place] = xp.linalg.solve(shifted, right) if quick is None else quick
    return found


def _solved_in_single(matrix: Any, right: Any) -> Any | None:
    """By a Cholesky factor in float32 and refinement; None where that does not get there."""
    factor = matrix.astype(np.float32, order="F")
    if not cholesky_factor(factor):
        return None
    size = np.linalg.norm(right, axis=0)
    left, found = right, np.zeros_like(right)
    for _ in range(_STEPS):
        scale = np.where((norm := np.linalg.norm(left, axis=0)) > 0, norm, 1)
        found += cholesky_solved(factor, (left / scale).astype(np.float32, order="F")) * scale
        left = right - matrix @ found
        if bool((np.linalg.norm(left, axis=0) <= _REFINED * size).all()):
            return found
    return None
