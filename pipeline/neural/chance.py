"""What a training step leaves out, by hashes: the same on every device, however a batch is divided."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def mixed(values: Array) -> Array:
    """A hash of uint32 values, NumPy's or JAX's, each for itself: the finalizer of MurmurHash3 (A. Appleby)."""
    values = values ^ (values >> np.uint32(16))
    values = values * np.uint32(0x85EBCA6B)
    values = values ^ (values >> np.uint32(13))
    values = values * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


def row_keys(seed: int, epoch: int, number: int, rows: int) -> Array:
    """A key for each row of an epoch's batch, uint32 [rows]: a row's chance goes by its place there."""
    keys = np.full(rows, seed, np.uint32)
    for piece in (np.uint32(epoch), np.uint32(number), np.arange(rows, dtype=np.uint32)):
        keys = mixed(keys) + piece
    return mixed(keys)


def kept(keys: Array, layer: int, columns: Array, rate: float) -> Array:
    """Which values of a layer stay, bool [rows, columns]: all but a share of `rate`. `columns` are their numbers, uint32."""
    bits = mixed(mixed(keys + np.uint32(layer))[:, None] + columns[None, :])
    return bits >= np.uint32(rate * 2**32)
