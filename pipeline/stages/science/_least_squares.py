"""Least squares of linear equations over parts, by QR of each part and of what they come to. Not a stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.arrays import to_device, to_host
from pipeline.errors import DataError
from pipeline.kernels.block_lu import PROBES, condition, probes
from pipeline.kernels.powers_of_two import divided
from pipeline.kernels.principal_axes import triangle
from pipeline.stages.science._systems import Equations, Scales, Solution, check_condition, singular, steady, unscaled
from pipeline.tables.part import Part

Array = Any


def triangle_of(part: Part, about: Equations, sizes: Scales) -> Array:
    """R of the scaled coefficients and right-hand sides of a part, `float64[min(n, p + q), p + q]`, on the host."""
    return to_host(triangle(to_device(divided(about.numbers(part), 0, steady(sizes.plain)), about.backend)))


def solved_by_qr(found: Array, sizes: Scales, about: Equations) -> Solution:
    """The unknowns with the least squares, from R of all parts. Raises DataError where the equations do not determine them."""
    from scipy.linalg import solve_triangular

    unknowns = len(about.own)
    if sizes.rows < unknowns:
        raise DataError(f"{sizes.rows:,} equations do not determine {unknowns:,} unknowns. Choose fewer `columns`, or give more equations.")
    square = found[:unknowns, :unknowns]
    zeros = np.flatnonzero(np.diag(square) == 0)
    if len(zeros):
        raise singular(about.own[int(zeros[0])])
    with np.errstate(over="ignore", invalid="ignore"):
        both = solve_triangular(square, np.hstack([found[:unknowns, unknowns:], probes(unknowns)]), check_finite=False)
    number = condition(float((square**2).sum()), both[:, -PROBES:])
    check_condition(number, about)
    left = np.sqrt((found[unknowns:, unknowns:] ** 2).sum(axis=0))
    return Solution(unscaled(both[:, :-PROBES], sizes.plain, about), number, np.ldexp(left, steady(sizes.plain)[unknowns:]))
