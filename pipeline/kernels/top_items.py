"""The best items of each user by factors, exactly and in an order that nothing but the factors decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.memory import block_bytes
from pipeline.kernels.factorization import Rows
from pipeline.kernels.nth_numbers import nth_greatest

Array = Any

_BLOCK_BYTES = 32 << 20
_ROUNDING = 4 * np.finfo(np.float64).eps


def pair_scores(users: Array, items: Array) -> Array:
    """Scores `float64[...]` of pairs of factors, `float64[..., f]` each: a pair's sum is added up in the same order wherever it stands."""
    return array_module(items).ascontiguousarray(users * items).sum(axis=-1)


def top_items(users: Array, items: Array, seen: Rows, offered: Array, n: int) -> tuple[Any, Any]:
    """The `n` items with the greatest scores of each user, the first of equals first, and their scores, in the host's memory.

    `users: float64[u, f]`, `items: float64[i, f]`; `seen` are the items of each user that are left out, `offered: bool[i]` those that may
    be in a list at all. Gives places `int64[u, n]`, -1 beyond a list's end, and scores `float64[u, n]`, NaN there.
    The products of a block of users with all items find who may be in the list; who is, and in what order, is said by `pair_scores`.
    """
    xp = array_module(users)
    places, scores = np.full((len(users), n), -1), np.full((len(users), n), np.nan)
    size = xp.sqrt((items * items).sum(axis=1).max()) if len(items) else xp.zeros(())
    step = max(1, block_bytes(users, _BLOCK_BYTES) // (8 * max(1, len(items))))
    for first in range(0, len(users), step):
        some, hidden = users[first : first + step], seen.between(first, min(first + step, len(users)))
        found = some @ items.T
        found[:, ~offered] = -xp.inf
        found[xp.asarray(np.repeat(np.arange(len(some)), np.diff(hidden.bounds))), hidden.columns] = -xp.inf
        near = _ROUNDING * some.shape[1] * size * xp.sqrt((some * some).sum(axis=1))
        for rows, chosen in _candidates(found, near, n):
            exact = pair_scores(some[rows][:, None, :], items[chosen])
            exact[xp.take_along_axis(found[rows], chosen, axis=1) == -xp.inf] = -xp.inf
            at = first + to_host(rows)
            places[at], scores[at] = _ordered(to_host(chosen), to_host(exact), n)
    return places, scores


def _candidates(found: Array, near: Array, n: int) -> Iterator[tuple[Array, Array]]:
    """Rows, and for each the items that could be among its best `n` if its scores were off by `near`: as many for all rows of a piece.

    Most rows have n. Those with more, where scores are equal or all but equal, come in pieces of their own, few at a time.
    """
    xp, (height, width) = array_module(found), found.shape
    if not width or not height:
        return
    kept = min(n, width)
    nth = nth_greatest(found, kept)
    least = nth - near
    count = (found >= least[:, None]).sum(axis=1)
    count[xp.isinf(nth)] = kept  # a short list: whatever else is left out scores nothing
    for size in xp.unique(count).tolist():
        rows = xp.flatnonzero(count == size)
        for piece in xp.array_split(rows, -(-len(rows) * size // max(size, 1 << 16))):
            yield piece, _columns(found, piece, least, size)


def _columns(found: Array, rows: Array, least: Array, size: int) -> Array:
    """The places of the `size` greatest scores of some rows, `int64[rows, size]`: those of at least `least`."""
    xp = array_module(found)
    if xp is not np:
        return xp.argpartition(found[rows], found.shape[1] - size, axis=1)[:, found.shape[1] - size :]
    from pipeline.kernels.compiled.best_columns import take_from

    chosen = np.zeros((len(rows), size), np.int64)
    take_from(found, rows, least, chosen)
    return chosen


def _ordered(places: Any, scores: Any, n: int) -> tuple[Any, Any]:
    """Places and scores `[rows, n]`, the greatest first, of equals the first item; -1 and NaN where nothing is left."""
    order = np.lexsort((places, -scores), axis=1)[:, :n]
    places, scores = np.take_along_axis(places, order, axis=1), np.take_along_axis(scores, order, axis=1)
    left_out = np.isneginf(scores)
    pad = [(0, 0), (0, n - places.shape[1])]
    return (
        np.pad(np.where(left_out, -1, places), pad, constant_values=-1),
        np.pad(np.where(left_out, np.nan, scores), pad, constant_values=np.nan),
    )
