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


def uniforms_of(paths: Array, draws: range, stream: int, key: tuple[int, int]) -> Array:
    """Two numbers above 0 and below 1 for each draw and path `uint64[n]`, of 52 bits: `float64[2, d, n]`.

    Draws, one after another, and the `stream` are below 2^32.
    """
    if array_module(paths) is not np:
        from pipeline.kernels.device.philox import device_uniforms

        return device_uniforms(paths, draws, stream, key)
    from pipeline.kernels.compiled.philox import fill_uniforms

    found = np.empty((2, len(draws), len(paths)))
    fill_uniforms(paths, (draws.start, stream, *key), found[0], found[1])
    return found


def uniforms_plain(paths: Array, draws: range, stream: int, key: tuple[int, int]) -> Array:
    """As `uniforms_of`, all paths at once."""
    xp = array_module(paths)
    found = xp.empty((2, len(draws), len(paths)))
    low, high = paths & np.uint64(LOW), paths >> np.uint64(32)
    for row, draw in enumerate(draws):
        words = philox4x32((low, high, xp.full_like(paths, draw), xp.full_like(paths, stream)), key)
        for at in (0, 1):
            found[at, row] = (words[2 * at] << np.uint64(32) | words[2 * at + 1]) >> np.uint64(12)
    return (found + 0.5) * UNIT


def normals_of(paths: Array, count: int, turn: int, stream: int, key: tuple[int, int]) -> Array:
    """So many independent standard normal numbers for each path `uint64[n]`: `float64[count, n]`, other ones each `turn` from 0."""
    pairs = (count + 1) // 2
    found = uniforms_of(paths, range(turn * pairs, turn * pairs + pairs), stream, key)
    if array_module(paths) is np:
        from pipeline.kernels.compiled.philox import turn_normal

        turn_normal(np.log(found[0], out=found[0]).ravel(), found[1].ravel())
    else:
        found = box_muller(found)
    return found.reshape(2 * pairs, len(paths))[:count]


def box_muller(uniforms: Array) -> Array:
    """Normal numbers of pairs of uniform ones, `float64[2, ...]` both."""
    xp = array_module(uniforms)
    radius, angle = xp.sqrt(-2 * xp.log(uniforms[0])), 2 * math.pi * uniforms[1]
    return xp.stack([radius * xp.cos(angle), radius * xp.sin(angle)])
