"""The Cauchy combination of p-values (ACAT). Liu & Xie (2020), JASA 115:393; Liu et al. (2019), Am J Hum Genet 104:410."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

GREATEST = 0.999
"""Greater p-values count as this one, as regenie has it: one that is nearly 1 would undo all others."""

_TINY = 15  # -log10 p from which the tangent is the inverse
_MOST = 300  # a power of ten that a float has
LEAST = 1e-300
"""The least p-value of what is not computed as a logarithm."""


def cauchy_combination(logarithms: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """-log10 of one p-value of several, of which `logarithms: float64[k]` are -log10, weighted by `weights` (equal if not given).

    NaN ones are left out; NaN if none is there. tan((1/2 - p) pi) has a Cauchy distribution, and so has, nearly, the weighted mean of
    several, however they depend on one another. p-values have no least one.
    """
    logarithms = np.asarray(logarithms, np.float64)
    weights = np.ones(len(logarithms)) if weights is None else np.asarray(weights, np.float64)
    there = ~np.isnan(logarithms) & (weights > 0)
    if not there.any():
        return math.nan
    size, weights = np.maximum(logarithms[there], -math.log10(GREATEST)), weights[there] / weights[there].sum()
    far = (size > _TINY) & (weights > 0)
    total = float(weights[size <= _TINY] @ (1 / np.tan(10 ** -size[size <= _TINY] * math.pi)))
    if far.any():
        top = float(size[far].max())
        logarithm = top + math.log10(weights[far] @ 10 ** (size[far] - top))
        if logarithm > _MOST:
            return logarithm
        total += 10**logarithm / math.pi
    return -math.log10(0.5 - math.atan(total) / math.pi if total < 1 else math.atan(1 / total) / math.pi)
