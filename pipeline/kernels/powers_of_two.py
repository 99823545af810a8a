"""Scaling by powers of two, which rounds nothing: so that squares of very large and very small numbers stay within float64."""

from __future__ import annotations

from typing import Any

from pipeline.backend.arrays import array_module

Array = Any
LEAST = -1_074
"""The exponent of 0, below those of all other numbers."""


def exponents(values: Array) -> Array:
    """The least whole e with |value| < 2^e, of `float64[...]`; that of 0 is -1074."""
    xp = array_module(values)
    return xp.where(values == 0, LEAST, xp.frexp(values)[1])


def divided(values: Array, by: Array) -> Array:
    """`float64[n, p]` divided by 2 to the power of `by`, whole numbers that broadcast: only what falls below 1e-308 is rounded."""
    xp = array_module(values)
    return xp.ldexp(values, -xp.asarray(by))
