"""The Cauchy combination of p-values (ACAT). Liu & Xie (2020), JASA 115:393; Liu et al. (2019), Am J Hum Genet 104:410."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

GREATEST = 0.999
"""Greater p-values count as this one, as regenie has it: one that is nearly 1 would undo all others."""

_TINY = 1e-15
LEAST = 1e-300
"""Lesser ones count as this, so that there is always a logarithm."""


def cauchy_combination(p_values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """One p-value of `p_values: float64[k]`, weighted by `weights` (equal if not given); NaN ones are left out, NaN if none is there.

    tan((1/2 - p) pi) has a Cauchy distribution, and so has, nearly, the weighted mean of several, however they depend on one another.
    """
    p_values = np.asarray(p_values, np.float64)
    weights = np.ones(len(p_values)) if weights is None else np.asarray(weights, np.float64)
    there = ~np.isnan(p_values) & (weights > 0)
    if not there.any():
        return math.nan
    p, weights = np.clip(p_values[there], LEAST, GREATEST), weights[there] / weights[there].sum()
    terms = np.where(p < _TINY, 1 / (np.maximum(p, LEAST) * np.pi), np.tan((0.5 - np.maximum(p, _TINY)) * np.pi))
    total = float(weights @ terms)
    return 1 / (total * math.pi) if total > 1 / _TINY else 0.5 - math.atan(total) / math.pi if total < 1 else math.atan(1 / total) / math.pi
