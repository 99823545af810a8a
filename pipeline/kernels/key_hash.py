"""A stable hash of keys: FNV-1a of texts, 64 bits, and splitmix64 of several words."""

from __future__ import annotations

from collections.abc import Sequence
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


def splitmix(words: Sequence[np.ndarray[Any, np.dtype[np.uint64]]], start: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Hashes `uint64[n]` of n rows of words, each `uint64[n]`: of one word z it is splitmix64's output for z + start.

    Steele, Lea & Flood (OOPSLA 2014). Of several words each is added to the mix of those before it, modulo 2^64.
    """
    z = np.full(len(words[0]), start, np.uint64)
    for word in words:
        z = z + word
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        z ^= z >> np.uint64(31)
    return z
