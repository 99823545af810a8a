"""ALT dosages in one pass: packed hard calls nearest to them, and sums over people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

_HALF = np.float32(0.5)


@compiled
def pack_nearest(dosages: NDArray[np.float32], steps: int, most: int, packed: NDArray[np.uint8]) -> None:
    """Fill `packed: uint8[v, w]` with the calls nearest to `dosages: float32[v, n]`, 3 where one is more than `most` of `steps` away."""
    for variant in range(dosages.shape[0]):
        for byte in range(packed.shape[1]):
            calls = 0
            for field in range(min(4, dosages.shape[1] - 4 * byte)):
                dosage, code = dosages[variant, 4 * byte + field], 3
                if dosage == dosage:
                    place = int(np.floor(dosage * np.float32(steps) + _HALF))
                    nearest = (place + steps // 2) // steps
                    if abs(place - nearest * steps) <= most:
                        code = nearest
                calls |= code << 2 * field
            packed[variant, byte] = calls


@compiled
def add_sums(dosages: NDArray[np.float32], used: NDArray[np.bool_], called: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    """Fill `called: int64[v]` and `sums: float64[2, v]`, of dosages and of their squares, of the people who are used and have one."""
    for variant in range(dosages.shape[0]):
        number, total, squares = 0, 0.0, 0.0
        for sample in range(dosages.shape[1]):
            dosage = np.float64(dosages[variant, sample])
            if used[sample] and dosage == dosage:
                number += 1
                total += dosage
                squares += dosage * dosage
        called[variant], sums[0, variant], sums[1, variant] = number, total, squares
