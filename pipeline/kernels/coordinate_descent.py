"""Coordinate descent on a Gram matrix: quadratics with a penalty on absolute values.

Friedman, Hastie & Tibshirani (2010), J Stat Softw 33(1), with covariance updates and an active set. Once the signs stand, the active
coefficients solve linear equations, so the answer is exact to rounding however slowly descent converges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST_SWEEPS = 100_000
SWEEPS = 10  # between two attempts to solve for the active ones
WITHIN = 1e-10
"""How far a slope may be from what the penalty asks for, in shares of the greatest slope at zero."""


def lasso_minimum(gram: Array, products: Array, l1: Array, start: Array) -> Array:
    """The `b [c]` with the least b'Gb / 2 - p'b + sum l1 |b|, of `gram [c, c]` (no curvature below 0), `products`, `l1`, `start [c]`.

    Raises ValueError where descent does not come near it.
    """
    found, active = start.copy(), start != 0
    slack = WITHIN * max(float(np.abs(products).max(initial=0.0)), 1e-300)
    for _ in range(MOST_SWEEPS // SWEEPS):
        slopes = products - gram @ found
        wrong = ~active & (np.abs(slopes) > l1 + slack)
        active = active | wrong
        if not active.any():
            return found
        solved = _solved(gram, products, l1, found)
        if solved is not None and _holds(products - gram @ solved, l1, solved, slack):
            return solved
        if not wrong.any() and _holds(slopes, l1, found, slack):
            return found
        _descend(gram, slopes, l1, found, np.flatnonzero(active))
        active = found != 0
    raise ValueError(f"coordinate descent did not converge in {MOST_SWEEPS:,} sweeps")


def _descend(gram: Array, slopes: Array, l1: Array, found: Array, active: Array) -> None:
    """Sweeps over the active coefficients, in place."""
    diagonal = gram.diagonal()
    for _ in range(SWEEPS):
        for at in active:
            curvature = diagonal[at]
            if curvature <= 0:
                continue
            pull = slopes[at] + curvature * found[at]
            moved = max(abs(pull) - l1[at], 0.0) * (1.0 if pull > 0 else -1.0) / curvature
            step = moved - found[at]
            if step:
                slopes -= gram[at] * step
                found[at] = moved


def _solved(gram: Array, products: Array, l1: Array, found: Array) -> Array | None:
    """The minimum among those of the signs found; None where another sign comes out, or there are no equations to solve."""
    active = np.flatnonzero((found != 0) | (l1 == 0))
    if not len(active):
        return None
    signs = np.sign(found[active])
    try:
        values = np.linalg.solve(gram[np.ix_(active, active)], products[active] - l1[active] * signs)
    except np.linalg.LinAlgError:
        return None
    if ((l1[active] > 0) & (np.sign(values) != signs)).any():
        return None
    solved = np.zeros_like(found)
    solved[active] = values
    return solved


def _holds(slopes: Array, l1: Array, found: Array, slack: float) -> bool:
    """Whether the slopes are those of the minimum: l1 with the coefficient's sign, and no greater where it is 0."""
    apart = np.where(found != 0, np.abs(slopes - l1 * np.sign(found)), np.maximum(np.abs(slopes) - l1, 0.0))
    return bool((apart <= slack).all())
