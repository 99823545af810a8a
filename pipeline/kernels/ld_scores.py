"""LD scores: how much of the variation around it a variant tags. Bulik-Sullivan et al. 2015 (Nat Genet 47:291-295).

The score of a variant is the sum of r^2 with all variants in reach, itself included, each less what it has by chance: r^2 - (1 - r^2) /
(n - 2). Calls that are missing have the variant's mean, as in ldsc.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array, call_counts
from pipeline.kernels.linkage_pairs import tiles
from pipeline.kernels.standardized import decoded

_PEOPLE = 16_384
"""People of a block, beside which a tile of variants takes some 30 MB."""


def ld_score_sums(packed: Array, ends: NDArray[np.int64], n_samples: int) -> Array:
    """Of variants `packed: uint8[v, w]` each one's sum of unbiased r^2 over the pairs of the first u = len(ends) with those behind them.

    The pairs of variant i are those with i to `ends[i]` - 1 (`int64[u]`), and count for both; a variant with itself once. `float64[v]`; a
    variant that does not vary has NaN, and counts for none. Three people at least.
    """
    xp = array_module(packed)
    values, varies = _values(call_counts(packed, n_samples), n_samples)
    sums = xp.zeros(len(packed))
    for rows, columns in tiles(ends):
        r = _products(packed, n_samples, values, (rows, columns)) / n_samples
        first, second = (xp.arange(each.start, each.stop) for each in (rows, columns))
        inside = (second >= first[:, None]) & (second < xp.asarray(ends[rows])[:, None]) & varies[rows][:, None] & varies[columns]
        unbiased = xp.where(inside, r * r - (1 - r * r) / (n_samples - 2), 0.0)
        sums[rows] += unbiased.sum(axis=1)
        sums[columns] += xp.where(second > first[:, None], unbiased, 0.0).sum(axis=0)
    return xp.where(varies, sums, xp.nan)


def ld_matrix(packed: Array, n_samples: int) -> Array:
    """r `float64[v, v]` of variants `packed: uint8[v, w]` with one another, missing calls at the mean; NaN where one does not vary.

    Such correlations are those of one table of numbers, so no sum of effects has a negative variance.
    """
    xp = array_module(packed)
    values, varies = _values(call_counts(packed, n_samples), n_samples)
    r = xp.empty((len(packed), len(packed)))
    for rows, columns in tiles(np.full(len(packed), len(packed))):
        tile = _products(packed, n_samples, values, (rows, columns)) / n_samples
        r[rows, columns] = xp.where(varies[rows][:, None] & varies[columns], tile, xp.nan)
        r[columns, rows] = r[rows, columns].T
    return r


def _values(counts: Array, n_samples: int) -> tuple[Array, Array]:
    """What codes stand for, `float64[v, 4]`: standardized calls, 0 where missing; and who varies, `bool[v]`."""
    xp = array_module(counts)
    called = xp.maximum(counts[:, :3].sum(axis=1), 1)
    alt, squares = counts[:, 1] + 2 * counts[:, 2], counts[:, 1] + 4 * counts[:, 2]
    spread = called * squares - alt * alt
    varies = spread > 0
    deviation = xp.sqrt(xp.where(varies, spread, 1) / (called * float(n_samples)))
    values = (xp.arange(4) - (alt / called)[:, None]) / deviation[:, None]
    values[:, 3] = 0
    return values, varies


def _products(packed: Array, n_samples: int, values: Array, tile: tuple[slice, slice]) -> Any:
    """Sums over people of products of standardized calls, `float64[a, b]`, of the variants of a tile."""
    xp = array_module(packed)
    total = 0.0
    for low in range(0, n_samples, _PEOPLE):
        people = min(_PEOPLE, n_samples - low)
        columns = slice(low // 4, (low + people + 3) // 4)
        one, other = (decoded(xp.ascontiguousarray(packed[rows, columns]), people, xp.ascontiguousarray(values[rows])) for rows in tile)
        total = total + one @ other.T
    return total
