"""Random numbers by a counter: the number of a draw is all that it depends on, so any order and any machine gives the same.

Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011, SC '11, doi:10.1145/2063384.2063405), and normal numbers of it by Box & Muller (1958).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module

Array = Any
ROUNDS = 10
FACTORS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)  # of the key, from round to round
LOW = 0xFFFFFFFF
UNIT = 2.0**-52


def philox4x32(counter: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> tuple[Array, Array, Array, Array]:
    """Four random words of 32 bits for each counter, in `uint64[n]` each; a counter is four such words, arrays `uint64[n]`.

    `key` are two words of 32 bits.
    """
    xp = array_module(*counter)
    low, shift = np.uint64(LOW), np.uint64(32)
    first, second = np.uint64(FACTORS[0]), np.uint64(FACTORS[1])
    c0, c1, c2, c3 = (xp.asarray(word, dtype=np.uint64) for word in counter)
    for turn in range(ROUNDS):
        k0, k1 = (np.uint64((word + turn * step) & LOW) for word, step in zip(key, STEPS, strict=True))
        left, right = c0 * first, c2 * second
        c0, c1, c2, c3 = (right >> shift) ^ c1 ^ k0, right & low, (left >> shift) ^ c3 ^ k1, left & low
    return c0, c1, c2, c3


def key_of(seed: int) -> tuple[int, int]:
    """The key of a seed from 0: its lowest 64 bits."""
    return seed & LOW, seed >> 32 & LOW


def uniform_pairs(paths: Array, draw: int, stream: int, key: tuple[int, int]) -> tuple[Array, Array]:
    """Two numbers above 0 and below 1 for each path `uint64[n]`, of 52 bits: `float64[n]` each. `draw` and `stream` are below 2^32."""
    if array_module(paths) is not np:
        return uniform_pairs_plain(paths, draw, stream, key)
    from pipeline.kernels.compiled.philox import fill_uniforms

    first, second = np.empty(len(paths)), np.empty(len(paths))
    fill_uniforms(paths, (draw, stream, *key), first, second)
    return first, second


def uniform_pairs_plain(paths: Array, draw: int, stream: int, key: tuple[int, int]) -> tuple[Array, Array]:
    """As `uniform_pairs`, all paths at once."""
    xp = array_module(paths)
    words = philox4x32(
        (paths & np.uint64(LOW), paths >> np.uint64(32), xp.full_like(paths, draw), xp.full_like(paths, stream)),
        key,
    )
    first, second = (((words[at] << np.uint64(32) | words[at + 1]) >> np.uint64(12)).astype(np.float64) for at in (0, 2))
    return (first + 0.5) * UNIT, (second + 0.5) * UNIT


def normal_pairs(paths: Array, draw: int, stream: int, key: tuple[int, int]) -> tuple[Array, Array]:
    """Two independent standard normal numbers for each path `uint64[n]`: `float64[n]` each."""
    xp = array_module(paths)
    first, second = uniform_pairs(paths, draw, stream, key)
    if xp is np:
        from pipeline.kernels.compiled.philox import turn_normal

        turn_normal(np.log(first, out=first), second)
        return first, second
    return box_muller(first, second)


def box_muller(first: Array, second: Array) -> tuple[Array, Array]:
    """Pairs of normal numbers of pairs of uniform ones, `float64[n]` each."""
    xp = array_module(first)
    radius, angle = xp.sqrt(-2 * xp.log(first)), 2 * math.pi * second
    return radius * xp.cos(angle), radius * xp.sin(angle)
