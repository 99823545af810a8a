"""Correlations of calls of many variants with many others, by matrix products over blocks of people.

Sums of calls are whole numbers, which the products give exactly, so a correlation does not depend on how variants are put into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotypes import Array, call_counts
from pipeline.kernels.linkage import haplotype_linkage
from pipeline.kernels.standardized import decoded

_PEOPLE = 16_384
"""People of a block: sums of up to four a person stay far below 2^24, where float32 is no longer exact."""
_TILE = 256
_CALLS = np.array([[0, 1, 2, 0]], np.float32)
_CALLED = np.array([[1, 1, 1, 0]], np.float32)
_SQUARES = np.array([[0, 1, 4, 0]], np.float32)
_COPIES = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], np.float32)


def correlations(first: Array, second: Array, n_samples: int) -> Array:
    """r `float64[a, b]` of the calls of the variants `first: uint8[a, w]` with those of `second: uint8[b, w]`, of people who have both.

    NaN where one does not vary among these people.
    """
    xp = array_module(first)
    counts, others = call_counts(first, n_samples), call_counts(second, n_samples)
    if int(counts[:, 3].sum() + others[:, 3].sum()) == 0:
        both = _products(first, second, n_samples, _CALLS, _CALLS)[0, 0]
        n = xp.full(both.shape, float(n_samples))
        x, xx = (counts[:, 1] + 2.0 * counts[:, 2])[:, None], (counts[:, 1] + 4.0 * counts[:, 2])[:, None]
        y, yy = (others[:, 1] + 2.0 * others[:, 2])[None, :], (others[:, 1] + 4.0 * others[:, 2])[None, :]
    else:
        of_calls = _products(first, second, n_samples, _CALLS, np.concatenate([_CALLS, _CALLED]))
        of_others = _products(first, second, n_samples, _CALLED, np.concatenate([_CALLED, _CALLS, _SQUARES]))
        both, x = of_calls[0]
        n, y, yy = of_others[0]
        xx = _products(first, second, n_samples, _SQUARES, _CALLED)[0, 0]
    variance = (n * xx - x * x) * (n * yy - y * y)
    return xp.where(variance > 0, (n * both - x * y) / xp.sqrt(xp.where(variance > 0, variance, 1)), xp.nan)


def call_tables(first: Array, second: Array, n_samples: int) -> Array:
    """People by their copies of ALT of a variant of `first: uint8[a, w]` and of one of `second: uint8[b, w]`: `float64[a, b, 3, 3]`."""
    return _products(first, second, n_samples, _COPIES, _COPIES).transpose(2, 3, 0, 1)


def _products(first: Array, second: Array, n_samples: int, values: Any, others: Any) -> Array:
    """Sums over people of what the calls of two variants stand for, of `values[p, 4]` and `others[q, 4]`: `float64[p, q, a, b]`."""
    xp = array_module(first)
    total = xp.zeros((len(values), len(others), len(first), len(second)))
    for low in range(0, n_samples, _PEOPLE):
        people = min(_PEOPLE, n_samples - low)
        columns = slice(low // 4, (low + people + 3) // 4)
        left, right = (
            [decoded(xp.ascontiguousarray(packed[:, columns]), people, xp.asarray(np.tile(of, (len(packed), 1)))) for of in table[:, None]]
            for packed, table in ((first, values), (second, others))
        )
        for p, x in enumerate(left):
            for q, y in enumerate(right):
                total[p, q] += x @ y.T
    return total


Linked = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


def linked(packed: Array, ends: NDArray[np.int64], n_samples: int, r2: float, *, haplotypes: bool = False) -> Linked:
    """Pairs of variants of `packed: uint8[v, w]` with r^2 of `r2` at least: the first, the second, r, D' (NaN without `haplotypes`).

    The second of a pair stands behind the first and before `ends: int64[u]` of it; variants from u on are second alone. In order of the
    first, then the second; on the host. With `haplotypes` r is of haplotypes of greatest likelihood, else of calls.
    """
    found = []
    for rows, columns in tiles(ends):
        if haplotypes:
            tables = call_tables(packed[rows], packed[columns], n_samples).reshape(-1, 3, 3)
            r, d_prime = (to_host(values).reshape(rows.stop - rows.start, -1) for values in haplotype_linkage(tables))
        else:
            r = to_host(correlations(packed[rows], packed[columns], n_samples))
            d_prime = np.full(r.shape, np.nan)
        first, second = (np.arange(each.start, each.stop) for each in (rows, columns))
        one, other = np.nonzero((second > first[:, None]) & (second < ends[rows, None]) & (r * r >= r2))
        found.append((first[one], second[other], r[one, other], d_prime[one, other]))
    empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
    one, other, r, d_prime = (np.concatenate(values) for values in zip(empty, *found, strict=True))
    order = np.lexsort((other, one))
    return one[order], other[order], r[order], d_prime[order]


def tiles(ends: NDArray[np.int64]) -> Iterator[tuple[slice, slice]]:
    """Blocks of variants and of those behind them, up to the last that one of the first may meet."""
    for low in range(0, len(ends), _TILE):
        high = min(low + _TILE, len(ends))
        last = int(ends[low:high].max())
        for start in range(low, last, _TILE):
            yield slice(low, high), slice(start, min(start + _TILE, last))
