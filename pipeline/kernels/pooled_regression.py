"""Linear regression of a trait on every variant, with covariates, from exact sums of products: whole numbers of any size.

They are centred as whole numbers, where sums of squares lose their digits; what is left are correlations, which float64 holds well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.kernels.linear_regression import (
    COLLINEAR,
    COLLINEAR_BELOW,
    COVARIATES,
    FINE,
    FLAT,
    MONOMORPHIC,
    ROUNDING,
    TOO_FEW,
    Association,
)

Array = np.ndarray[Any, Any]


def regressed(sums: Array, bits: int) -> Association:
    """Of sums `object[v, q, q]` (upper triangle) of intercept, covariates, trait and genotype, in units of 2^(-2 bits)."""
    q = sums.shape[1]
    n = (sums[:, 0, 0] >> (2 * bits)).astype(np.int64)
    centred = _centred(sums, n.astype(object), bits)
    places = [*range(q - 3), q - 2, q - 3]  # covariates, genotype, trait
    spread = centred[:, range(q - 1), range(q - 1)].astype(np.float64)[:, places]
    scale = np.sqrt(np.where(spread > 0, spread, 1.0))
    table = centred[:, places][:, :, places].astype(np.float64) / scale[:, :, None] / scale[:, None, :]
    table, regular = _swept(table, q - 3)
    genotype, both, trait = table[:, -2, -2], table[:, -2, -1], table[:, -1, -1]
    reason = np.full(len(n), FINE, np.uint8)
    reason[trait <= 64 * ROUNDING] = FLAT
    reason[genotype <= COLLINEAR_BELOW] = COLLINEAR
    reason[~regular] = COVARIATES
    reason[spread[:, -2] <= 0] = MONOMORPHIC
    df = n - (q - 2) - 1
    reason[df < 1] = TOO_FEW
    fine = reason == FINE
    genotype, trait = np.where(fine, genotype, 1.0), np.where(fine, trait, 1.0)
    slope = both / genotype
    left = np.maximum(trait - slope * both, ROUNDING * trait)
    error = np.sqrt(left / np.maximum(df, 1) / genotype)
    ratio = scale[:, -1] / scale[:, -2]
    alt = np.array([float(value) for value in sums[:, 0, -1]]) / 2.0 ** (2 * bits)
    frequency = np.divide(alt, 2 * n, out=np.full(len(n), np.nan), where=n > 0)
    beta, error, statistic = (np.where(fine, values, np.nan)[:, None] for values in (slope * ratio, error * ratio, slope / error))
    return Association(beta, error, statistic, n, df, frequency, reason[:, None])


def _centred(sums: Array, n: Array, bits: int) -> Array:
    """People times the sums of products about the means, exactly: n sum(x y) - sum(x) sum(y), `object[v, q - 1, q - 1]`."""
    upper = np.triu(np.ones(sums.shape[1:], bool))
    whole = np.where(upper, sums, sums.transpose(0, 2, 1))[:, 1:, 1:]
    totals = sums[:, 0, 1:]
    found: Array = n[:, None, None] * whole - (totals[:, :, None] * totals[:, None, :] >> (2 * bits))
    return found


def _swept(table: Array, covariates: int) -> tuple[Array, Array]:
    """What the first columns do not explain of the others, and whether they are no weighted sums of one another, `bool[v]`."""
    regular = np.ones(len(table), bool)
    for place in range(covariates):
        pivot = table[:, place, place]
        regular &= pivot > COLLINEAR_BELOW
        row = table[:, place] / np.where(regular, pivot, 1.0)[:, None]
        table = table - table[:, :, place, None] * row[:, None, :]
    return table, regular
