"""Scaling by powers of two, which rounds nothing: so that squares of very large and very small numbers stay within float64."""

from __future__ import annotations

from typing import Any

from pipeline.backend.arrays import array_module

Array = Any
MIDDLE = 500
LEAST = -1_074
"""The exponent of 0, below those of all other numbers."""


def exponents(values: Array) -> Array:
    """The least whole e with |value| < 2^e, of `float64[...]`; that of 0 is -1074."""
    xp = array_module(values)
    return xp.where(values == 0, LEAST, xp.frexp(values)[1])


def divided(values: Array, rows: Any, columns: Any = 0) -> Array:
    """`float64[n, p]` divided by 2 to the power of `rows` and of `columns`, whole numbers that broadcast to `[n, 1]` and `[p]`.

    Only what falls below 1e-308 is rounded, and in the middle of numbers what is 1e-150 of those beside it.
    """
    xp = array_module(values)
    rows, columns = (xp.asarray(by) for by in (rows, columns))
    if is_middle(rows) and is_middle(columns):  # factors that are numbers: far quicker
        found = values * xp.ldexp(1.0, -columns)
        found *= xp.ldexp(1.0, -rows)
        return found
    return xp.ldexp(values, -(rows + columns))


def is_middle(exponent: Array) -> bool:
    """Whether all exponents are of numbers whose squares and products are far from the ends of float64."""
    return exponent.size == 0 or (int(exponent.max()) <= MIDDLE and int(exponent.min()) >= -MIDDLE)
