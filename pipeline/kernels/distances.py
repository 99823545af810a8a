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

Array = Any

BLOCK_BYTES = 4 << 20
"""What a temporary of a block takes on a CPU."""
TIED = 1e-12
"""Points whose squared distances differ by less than that share of the squares they are made of are equally near: the first is taken."""


def row_blocks(rows: Array, width: int) -> Iterator[slice]:
    """Slices that cover all rows, with so many doubles of a temporary a row."""
    step = max(64, block_bytes(rows, BLOCK_BYTES) // (8 * max(width, 1)))
    return (slice(start, min(start + step, len(rows))) for start in range(0, len(rows), step))


def products(rows: Array, points: Array) -> Array:
    """`float64[n, k]` of rows `[n, d]` and points `[k, d]`, by a product; not below 0, and as exact as squares from the origin are."""
    xp = array_module(rows)
    own, theirs = (rows * rows).sum(axis=1), (points * points).sum(axis=1)
    return xp.maximum(own[:, None] + theirs - 2 * (rows @ points.T), 0)


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
    for feature in range(rows.shape[1]):
        found += rows[:, feature, None] * axes[None, feature]
    return found


def nearest(found: Array, rows: Array, points: Array) -> tuple[Array, Array]:
    """Which point is nearest `int64[n]`, the first of those equally near, and its squared distance `float64[n]`, of distances `found`."""
    size = (rows * rows).sum(axis=1) + float((points * points).sum(axis=1).max())
    first = (found <= (found.min(axis=1) + TIED * size)[:, None]).argmax(axis=1)
    return first, found[array_module(rows).arange(len(rows)), first]


def assigned(rows: Array, points: Array) -> tuple[Array, Array]:
    """`nearest` of exact squares, in blocks."""
    xp = array_module(rows)
    pieces = [nearest(squares(rows[at], points), rows[at], points) for at in row_blocks(rows, len(points))]
    if not pieces:
        return xp.zeros(0, np.int64), xp.zeros(0)
    return xp.concatenate([first for first, _ in pieces]), xp.concatenate([found for _, found in pieces])
