"""Philox's words and normal numbers of them, path by path, in loops that a processor takes several paths at once through."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

TURN = 2 * math.pi
S3, S5, S7, S9, S11, S13, S15 = ((-1) ** (n // 2) / math.factorial(n) for n in range(3, 16, 2))
C2, C4, C6, C8, C10, C12, C14, C16 = ((-1) ** (n // 2) / math.factorial(n) for n in range(2, 17, 2))


@compiled
def fill_uniforms(
    paths: NDArray[np.uint64], where: tuple[int, int, int, int], first: NDArray[np.float64], second: NDArray[np.float64]
) -> None:
    """Write both uniform numbers of d draws of each path, `float64[d, n]`; `where` are the first draw, the stream and the key's words."""
    begin, stream, k0, k1 = np.uint64(where[0]), np.uint64(where[1]), np.uint64(where[2]), np.uint64(where[3])
    low, shift, cut = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)
    one, other = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for row in range(len(first)):
        draw = begin + np.uint64(row)
        for at in range(len(paths)):
            c0, c1, c2, c3, a, b = paths[at] & low, paths[at] >> shift, draw, stream, k0, k1
            for _ in range(10):
                left, right = c0 * one, c2 * other
                c0, c1, c2, c3 = (right >> shift) ^ c1 ^ a, right & low, (left >> shift) ^ c3 ^ b, left & low
                a, b = (a + np.uint64(0x9E3779B9)) & low, (b + np.uint64(0xBB67AE85)) & low
            first[row, at] = (np.float64(((c0 << shift) | c1) >> cut) + 0.5) * 2.0**-52
            second[row, at] = (np.float64(((c2 << shift) | c3) >> cut) + 0.5) * 2.0**-52


@compiled
def turn_normal(logs: NDArray[np.float64], second: NDArray[np.float64]) -> None:
    """Turn logarithms of uniform numbers, and other uniform numbers, into pairs of normal ones, in place.

    An angle is a quarter of a turn, times 0 to 4, and at most an eighth more or less, of which Taylor's series gives sine and cosine.
    """
    for at in range(len(second)):
        quarter = math.floor(4.0 * second[at] + 0.5)
        x = (second[at] - 0.25 * quarter) * TURN
        y = x * x
        sine = x * (1 + y * (S3 + y * (S5 + y * (S7 + y * (S9 + y * (S11 + y * (S13 + y * S15)))))))
        cosine = 1 + y * (C2 + y * (C4 + y * (C6 + y * (C8 + y * (C10 + y * (C12 + y * (C14 + y * C16)))))))
        odd = quarter == 1.0 or quarter == 3.0
        along, up = (sine, cosine) if odd else (cosine, sine)
        radius = math.sqrt(-2.0 * logs[at])
        logs[at] = -radius * along if quarter == 1.0 or quarter == 2.0 else radius * along
        second[at] = -radius * up if quarter == 2.0 or quarter == 3.0 else radius * up
