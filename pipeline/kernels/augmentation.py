"""Images changed a little: mirrored, turned about their middle and shifted, as training sees them anew in every epoch."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any


def moved_images(images: Array, mirrored: Array, degrees: Array, shifts: Array) -> Array:
    """Images `float32[n, height, width, channels]`, each mirrored or not, then turned, then shifted; float32 of the same shape.

    `mirrored bool[n]`: left for right. `degrees [n]`: turned about the middle, from the first axis (downwards) towards the second, as
    a turn anticlockwise looks. `shifts [n, 2]`: pixels downwards and to the right. Between pixels the four nearest are weighed
    (bilinear), and what comes from outside is the nearest pixel of the edge: SciPy's `affine_transform` with `order=1, mode="nearest"`.
    """
    xp = array_module(images)
    count, height, width, _ = images.shape
    mirrored, degrees, shifts = (xp.asarray(values) for values in (mirrored, degrees, shifts))
    turn = xp.deg2rad(degrees.astype(np.float64))[:, None, None]
    middle = (height - 1) / 2, (width - 1) / 2
    down = xp.arange(height)[None, :, None] - middle[0] - shifts[:, 0, None, None]
    right = xp.arange(width)[None, None, :] - middle[1] - shifts[:, 1, None, None]
    rows = xp.cos(turn) * down + xp.sin(turn) * right + middle[0]
    columns = xp.cos(turn) * right - xp.sin(turn) * down + middle[1]
    columns = xp.where(mirrored[:, None, None], width - 1 - columns, columns)
    (above, below, lower), (before, after, later) = _between(xp, rows, height), _between(xp, columns, width)
    flat, first = images.reshape(count * height * width, -1), (xp.arange(count) * (height * width))[:, None, None]
    top = flat[first + above * width + before] * (1 - later) + flat[first + above * width + after] * later
    bottom = flat[first + below * width + before] * (1 - later) + flat[first + below * width + after] * later
    return top * (1 - lower) + bottom * lower


def _between(xp: Any, places: Array, size: int) -> tuple[Array, Array, Array]:
    """Of places on an axis the pixels before and after, and the share of the one after, float32 [..., 1]."""
    inside = xp.clip(places, 0, size - 1)
    before = xp.floor(inside).astype(np.int64)
    share = (inside - before).astype(np.float32)[..., None]
    return before, xp.minimum(before + 1, size - 1), share
