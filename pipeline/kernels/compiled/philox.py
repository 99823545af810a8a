"""Philox's words and normal numbers of them, path by path: loops over words that vectorize, then one over logarithms and angles."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled


@compiled
def fill_uniforms(
    paths: NDArray[np.uint64], where: tuple[int, int, int, int], first: NDArray[np.float64], second: NDArray[np.float64]
) -> None:
    """Write the two uniform numbers of each path; `where` are the draw, the stream and the key's two words."""
    draw, stream, k0, k1 = np.uint64(where[0]), np.uint64(where[1]), np.uint64(where[2]), np.uint64(where[3])
    low, shift, cut = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)
    one, other = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for at in range(len(paths)):
        c0, c1, c2, c3, a, b = paths[at] & low, paths[at] >> shift, draw, stream, k0, k1
        for _ in range(10):
            left, right = c0 * one, c2 * other
            c0, c1, c2, c3 = (right >> shift) ^ c1 ^ a, right & low, (left >> shift) ^ c3 ^ b, left & low
            a, b = (a + np.uint64(0x9E3779B9)) & low, (b + np.uint64(0xBB67AE85)) & low
        first[at] = (np.float64(((c0 << shift) | c1) >> cut) + 0.5) * 2.0**-52
        second[at] = (np.float64(((c2 << shift) | c3) >> cut) + 0.5) * 2.0**-52


@compiled
def turn_normal(first: NDArray[np.float64], second: NDArray[np.float64]) -> None:
    """Turn pairs of uniform numbers into pairs of normal ones, in place."""
    for at in range(len(first)):
        radius, angle = math.sqrt(-2.0 * math.log(first[at])), 2.0 * math.pi * second[at]
        first[at], second[at] = radius * math.cos(angle), radius * math.sin(angle)
