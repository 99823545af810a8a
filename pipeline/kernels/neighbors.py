"""Nearest rows of a block: candidates by a product of matrices, then their exact distances, so that ties fall as the rows' order says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.distances import TIED, lengths, products, row_blocks
from pipeline.kernels.nth_numbers import nth_least

Array = Any

_ROWS = 8_192
"""Rows that a block of queries is compared with at once."""


class Pairs(NamedTuple):
    """Queries and rows by number `int64[p]`, and the squared distances of each pair `float64[p]`."""

    queries: Array
    rows: Array
    squares: Array


def _nothing() -> None:
    """What is asked where nobody is to be asked."""


def nearest_pairs(queries: Array, rows: Array, neighbors: int, ask: Callable[[], None] = _nothing) -> Pairs:
    """Every query `[q, d]` with its nearest rows `[r, d]`, in any order, and maybe with some more.

    Where rows are equally near those with the lower numbers are among them. Squares are added feature by feature: a pair has the same
    distance in any block. `ask` is called before every block, and may raise where nobody wants the answer any more.
    """
    xp = array_module(queries)
    found = [no_pairs(xp)]
    for at in row_blocks(queries, 4 * min(_ROWS, max(len(rows), 1))):
        block = queries[at]
        best, reach = no_pairs(xp), xp.full(len(block), xp.inf)
        for first in range(0, len(rows), _ROWS):
            ask()
            more = _pairs(block, rows[first : first + _ROWS], neighbors, reach)
            best = joined_pairs([best, Pairs(more.queries, more.rows + first, more.squares)])
            if len(rows) > _ROWS or len(best.squares) > 2 * neighbors * len(block):
                best = first_pairs(best, neighbors)
                reach = _reach(best, reach, neighbors)
        found.append(Pairs(best.queries + at.start, best.rows, best.squares))
    return joined_pairs(found)


def no_pairs(xp: Any) -> Pairs:
    """None, on the device of a module."""
    return Pairs(xp.zeros(0, np.int64), xp.zeros(0, np.int64), xp.zeros(0))


def joined_pairs(found: list[Pairs]) -> Pairs:
    """The pairs of several blocks."""
    xp = array_module(found[0].squares)
    return Pairs(*(xp.concatenate(values) for values in zip(*found, strict=True)))


def first_pairs(pairs: Pairs, neighbors: int) -> Pairs:
    """Of every query the nearest rows, nearest first, the lower number first where two are equally near."""
    xp = array_module(pairs.squares)
    order = xp.lexsort(xp.stack([pairs.rows.astype(np.float64), pairs.squares, pairs.queries.astype(np.float64)]))
    queries, rows, squares = (values[order] for values in pairs)
    rank = xp.arange(len(queries)) - xp.searchsorted(queries, queries)
    kept = rank < neighbors
    return Pairs(queries[kept], rows[kept], squares[kept])


def unit_rows(rows: Array) -> tuple[Array, Array]:
    """Rows `[n, d]` of length 1, and which have no length `bool[n]`, whose rows are NaN. The same for a row wherever it stands."""
    xp = array_module(rows)
    size = abs(rows).max(axis=1)
    none = ~(size > 0)
    rows = rows / xp.where(none, np.nan, size)[:, None]
    length = xp.sqrt(sum((rows[:, i] ** 2 for i in range(rows.shape[1])), start=xp.zeros(len(rows))))
    return rows / length[:, None], none


def _reach(best: Pairs, reach: Array, neighbors: int) -> Array:
    """The squared distance of every query's last neighbor, where it has as many as are wanted; `first_pairs` has put them in order."""
    xp = array_module(reach)
    ends = xp.searchsorted(best.queries, xp.arange(len(reach)), side="right")
    full = ends - xp.searchsorted(best.queries, xp.arange(len(reach))) == neighbors
    reach = reach.copy()
    reach[full] = best.squares[ends[full] - 1]
    return reach


def _pairs(queries: Array, rows: Array, neighbors: int, reach: Array) -> Pairs:
    """Every pair of a query with one of its nearest rows, and with all that are as near as the last of them or as `reach`, to rounding."""
    xp = array_module(queries)
    found = products(queries, rows)
    if neighbors < len(rows) and not bool(xp.isfinite(reach).all()):
        reach = xp.minimum(reach, nth_least(found, neighbors))
    slack = TIED * (lengths(queries) + lengths(rows).max())
    places = xp.flatnonzero(found <= (reach + slack)[:, None])
    first, second = places // len(rows), places % len(rows)
    squares = xp.zeros(len(places))
    for feature in range(queries.shape[1]):
        apart = queries[first, feature] - rows[second, feature]
        squares += apart * apart
    return Pairs(first, second, squares)
