"""Squared distances between rows and a few points: by a product of matrices, or feature by feature, the same for a row alone.

A matrix product rounds a row differently by where it stands in its block. Where an answer must not show how rows are divided (what a model
publishes, which neighbour comes first), squares are added feature by feature.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.memory import block_bytes
from pipeline.kernels.row_products import add_products

Array = Any

BLOCK_BYTES = 4 << 20
"""What a temporary of a block takes on a CPU."""
TIED = 1e-12
"""Points whose squared distances differ by less than that share of the squares they are made of are equally near: the first is taken."""
COMPILED = 4_096
"""Numbers of all points up to which their distances are added up by the compiled kernel."""


def row_blocks(rows: Array, width: int) -> Iterator[slice]:
    """Slices that cover all rows, with so many doubles of a temporary a row."""
    step = max(64, block_bytes(rows, BLOCK_BYTES) // (8 * max(width, 1)))
    return (slice(start, min(start + step, len(rows))) for start in range(0, len(rows), step))


def products(rows: Array, points: Array) -> Array:
    """`float64[n, k]` of rows `[n, d]` and points `[k, d]`, by a product; not below 0, and as exact as squares from the origin are."""
    xp = array_module(rows)
    found = rows @ (-2 * points.T)
    found += lengths(points)
    found += lengths(rows)[:, None]
    return xp.maximum(found, 0, out=found)


def lengths(rows: Array) -> Array:
    """Squared lengths of rows, `float64[n]`."""
    return array_module(rows).einsum("ij,ij->i", rows, rows)


def squares(rows: Array, points: Array) -> Array:
    """`float64[n, k]` of rows `[n, d]` and points `[k, d]`, feature by feature: the same for a row wherever it stands."""
    xp = array_module(rows)
    found = xp.zeros((len(rows), len(points)))
    for feature in range(rows.shape[1]):
        apart = rows[:, feature, None] - points[None, :, feature]
        found += apart * apart
    return found


def projected(rows: Array, axes: Array) -> Array:
    """rows `[n, d]` times axes `[d, k]`, feature by feature: the same for a row wherever it stands."""
    xp = array_module(rows)
    found = xp.zeros((len(rows), axes.shape[1]))
    add_products(rows, axes, found)
    return found


def nearest(found: Array, rows: Array, points: Array, tied: float = TIED) -> tuple[Array, Array]:
    """Which point is nearest `int64[n]`, the first of those equally near, and its squared distance `float64[n]`, of distances `found`."""
    xp = array_module(rows)
    first, every = found.argmin(axis=1), xp.arange(len(rows))
    several = several_near(found, found[every, first], tied * (lengths(rows) + lengths(points).max()))
    if len(several):
        low = found[several].min(axis=1) + tied * (lengths(rows[several]) + lengths(points).max())
        first[several] = (found[several] <= low[:, None]).argmax(axis=1)
    return first, found[every, first]


def several_near(found: Array, low: Array, slack: Array) -> Array:
    """The rows `int64` to which several points are as near as `low`, but for a `slack`."""
    xp = array_module(found)
    near = found <= (low + slack)[:, None]
    if int(xp.count_nonzero(near)) == len(found):
        return xp.zeros(0, np.int64)
    return xp.flatnonzero(xp.count_nonzero(near, axis=1) > 1)


def assigned(rows: Array, points: Array) -> tuple[Array, Array]:
    """What `nearest` gives of `squares`; where no compiled kernel adds them up, those of points that cannot be the nearest are left out."""
    xp = array_module(rows)
    chosen, apart = xp.zeros(len(rows), np.int64), xp.zeros(len(rows))
    if is_compiled(rows, points):
        from pipeline.kernels.compiled.nearest import find_nearest

        find_nearest(np.ascontiguousarray(rows), np.ascontiguousarray(points.T), TIED, chosen, apart)
        return chosen, apart
    for at in row_blocks(rows, len(points)):
        block = rows[at]
        found = products(block, points)
        first = found.argmin(axis=1)
        # Twice the slack: what products round does not hide a point that the squares would find as near.
        several = several_near(found, found[xp.arange(len(block)), first], 2 * TIED * (lengths(block) + lengths(points).max()))
        if len(several):
            first[several] = nearest(squares(block[several], points), block[several], points)[0]
        chosen[at] = first
        for feature in range(rows.shape[1]):
            step = block[:, feature] - points[first, feature]
            apart[at] += step * step
    return chosen, apart


def is_compiled(rows: Array, points: Array) -> bool:
    """Whether the compiled kernel finds the nearest: on a CPU, of points that its first-level cache holds; of more a product is quicker."""
    return array_module(rows) is np and points.size <= COMPILED
