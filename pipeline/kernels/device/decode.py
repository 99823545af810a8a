"""Packed calls as numbers, in one pass: two bits are a place in a table of four, one table for all variants or one for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel, blocks_for

if TYPE_CHECKING:
    from numba import cuda

THREADS = 256
_SAMPLES_A_THREAD = 4
_MOST_BLOCKS = 65_535


def fill(packed: Any, values: Any, decoded: Any) -> None:
    """Each thread writes every n-th sample of one variant, side by side with its neighbours'."""
    variant = cuda.blockIdx.x
    table = variant if values.shape[0] > 1 else 0
    for sample in range(cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x, decoded.shape[1], cuda.gridDim.y * cuda.blockDim.x):
        decoded[variant, sample] = values[table, np.int32(packed[variant, sample >> 2]) >> np.int32(2 * (sample & 3)) & 3]


def decode_float64(packed: Any, values: Any, decoded: Any) -> None:
    """A block writes a stretch of one variant."""
    fill(packed, values, decoded)


def decode_float32(packed: Any, values: Any, decoded: Any) -> None:
    """A block writes a stretch of one variant."""
    fill(packed, values, decoded)


def decode_int8(packed: Any, values: Any, decoded: Any) -> None:
    """A block writes a stretch of one variant."""
    fill(packed, values, decoded)


def _decode(packed: Any, values: Any, decoded: Any) -> None:
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(len(packed), -1)[:, : decoded.shape[1]]
    decoded[:] = np.take_along_axis(np.broadcast_to(values, (len(packed), 4)), codes.astype(np.intp), axis=1)


def _types(number: str) -> str:
    return f"uint8[:,::1] {number}[:,::1] {number}[:,::1]"


float64s = DeviceKernel(decode_float64, _types("float64"), _decode, THREADS, (fill,))
"""Write what the calls stand for, of `values: float64[v or 1, 4]`, into `decoded: float64[v, n]`; v blocks wide, as many high as wanted."""
float32s = DeviceKernel(decode_float32, _types("float32"), _decode, THREADS, (fill,))
"""The same in float32."""
int8s = DeviceKernel(decode_int8, _types("int8"), _decode, THREADS, (fill,))
"""The same in int8."""

_KERNELS = {np.dtype(np.float64): float64s, np.dtype(np.float32): float32s, np.dtype(np.int8): int8s}


def decode(packed: Any, n_samples: int, values: Any) -> Any:
    """What each call of CuPy arrays stands for, of `values[v or 1, 4]` (float64, float32 or int8), of that type: `[v, n_samples]`."""
    xp = array_module(packed)
    decoded = xp.empty((len(packed), n_samples), values.dtype)
    if decoded.size:
        high = min(_MOST_BLOCKS, blocks_for(n_samples, THREADS * _SAMPLES_A_THREAD))
        _KERNELS[values.dtype]((len(packed), high), xp.ascontiguousarray(packed), xp.ascontiguousarray(values), decoded)
    return decoded
