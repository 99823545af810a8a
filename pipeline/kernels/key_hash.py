"""A stable hash of text keys: FNV-1a, 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

OFFSET_BASIS, PRIME = 0xCBF29CE484222325, 0x100000001B3


def fnv1a(data: np.ndarray[Any, np.dtype[np.uint8]], bounds: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Hashes `uint64[n]` of n texts; text i is the bytes `data[bounds[i]:bounds[i + 1]]`, `bounds` int64[n + 1].

    FNV-1a (Fowler, Noll & Vo; RFC 9923): for each byte, exclusive or and then a product, modulo 2^64. One pass
    over the texts per byte of the longest.
    """
    hashes = np.full(len(bounds) - 1, OFFSET_BASIS, np.uint64)
    lengths = np.diff(bounds)
    live, place = np.arange(len(hashes)), 0
    while len(live := live[lengths[live] > place]):
        hashes[live] = (hashes[live] ^ data[bounds[live] + place]) * np.uint64(PRIME)
        place += 1
    return hashes
