"""Packed calls as numbers, and sums over them, by small tables of what each code stands for: no call is decoded by arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

_ROWS = 32  # variants whose tables and calls stay in the first-level cache together


@compiled
def fill_values(packed: NDArray[np.uint8], values: NDArray[Any], out: NDArray[Any]) -> None:
    """Write what each call of `packed: uint8[v, w]` stands for, of `values[v, 4]`, into `out[v, 2w]`.

    `out` holds two samples in one item: complex64 where the values are float32, complex128 where they are float64.
    """
    pair = np.empty((16, 2), values.dtype)
    pairs = pair.reshape(32).view(out.dtype)
    for variant in range(packed.shape[0]):
        for code in range(16):
            pair[code, 0] = values[variant, code & 3]
            pair[code, 1] = values[variant, code >> 2]
        for byte in range(packed.shape[1]):
            out[variant, 2 * byte] = pairs[packed[variant, byte] & 15]
            out[variant, 2 * byte + 1] = pairs[packed[variant, byte] >> 4]


@compiled
def add_values(packed: NDArray[np.uint8], values: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    """Add to `sums: float64[4w]`, a sample each, what its calls of `packed: uint8[v, w]` stand for, of `values: float64[v, 4]`."""
    pair = np.empty((_ROWS, 16, 2))
    for start in range(0, packed.shape[0], _ROWS):
        rows = min(_ROWS, packed.shape[0] - start)
        for row in range(rows):
            for code in range(16):
                pair[row, code, 0] = values[start + row, code & 3]
                pair[row, code, 1] = values[start + row, code >> 2]
        for byte in range(packed.shape[1]):
            first = second = third = fourth = 0.0
            for row in range(rows):
                calls = packed[start + row, byte]
                low, high = calls & 15, calls >> 4
                first += pair[row, low, 0]
                second += pair[row, low, 1]
                third += pair[row, high, 0]
                fourth += pair[row, high, 1]
            sums[4 * byte] += first
            sums[4 * byte + 1] += second
            sums[4 * byte + 2] += third
            sums[4 * byte + 3] += fourth


@compiled
def add_missing_pairs(packed: NDArray[np.uint8], counts: NDArray[np.int32]) -> None:
    """Add to `counts: int32[n, n]`, at i <= j, the variants of `packed: uint8[v, w]` that both i and j have not; i = j counts too."""
    missing = np.empty(4 * packed.shape[1], np.int64)
    for variant in range(packed.shape[0]):
        found = 0
        for byte in range(packed.shape[1]):
            bits = packed[variant, byte]
            bits = bits & (bits >> 1) & 0x55
            if bits:
                for field in range(4):
                    if bits >> (2 * field) & 1:
                        missing[found] = 4 * byte + field
                        found += 1
        for first in range(found):
            row = counts[missing[first]]
            for second in range(first, found):
                row[missing[second]] += 1


@compiled
def add_triangle(sums: NDArray[np.float64], block: NDArray[np.float32]) -> None:
    """Add `block: float32[m, m]` to `sums: float64[n, n]`, n at most m, at i <= j < n."""
    for i in range(len(sums)):
        for j in range(i, len(sums)):
            sums[i, j] += block[i, j]
