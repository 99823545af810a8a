"""Counts of the four states of packed calls, in one pass over their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.launch import DeviceKernel

if TYPE_CHECKING:
    from numba import cuda

THREADS = 128


def count_variants(packed: Any, counts: Any) -> None:
    """A block counts one variant: its threads take every 128th byte, add in shared memory, and one writes."""
    sums = cuda.shared.array(3, np.int32)
    thread, variant = cuda.threadIdx.x, cuda.blockIdx.x
    if thread < 3:
        sums[thread] = 0
    cuda.syncthreads()
    low = high = both = 0
    for byte in range(thread, packed.shape[1], cuda.blockDim.x):
        call = np.int32(packed[variant, byte])
        first, second = call & 0x55, call >> 1 & 0x55
        low += cuda.popc(first)
        high += cuda.popc(second)
        both += cuda.popc(first & second)
    cuda.atomic.add(sums, 0, low - both)
    cuda.atomic.add(sums, 1, high - both)
    cuda.atomic.add(sums, 2, both)
    cuda.syncthreads()
    if thread < 3:
        counts[variant, 1 + thread] = sums[thread]


def _count_variants(packed: Any, counts: Any) -> None:
    first, second = packed & 0x55, packed >> 1 & 0x55
    low, high, both = (np.bitwise_count(bits).sum(axis=1, dtype=np.int64) for bits in (first, second, first & second))
    counts[:, 1], counts[:, 2], counts[:, 3] = low - both, high - both, both


variant_counts = DeviceKernel(count_variants, "uint8[:,::1] int64[:,::1]", _count_variants, THREADS)
"""Write the heterozygous, homozygous ALT and missing samples of each variant into columns 1 to 3 of `counts: int64[v, 4]`; v blocks."""
