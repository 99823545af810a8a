"""Genotypes of a block as scans take them: float64, less the variant's mean among the used samples, 0 where missing; and their moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.launch import DeviceKernel, blocks_for
from pipeline.kernels.device.counts import VARIANTS, variant_counts
from pipeline.kernels.device.decode import decode
from pipeline.kernels.genotype_block import GenotypeBlock

if TYPE_CHECKING:
    from numba import cuda

CALLED, FREQUENCY, SQUARES, ROUNDING = range(4)
"""Rows of the moments: used samples with a call; ALT's share of their alleles; g'g; at most this much of g'g is rounding."""

THREADS = 128


@dataclass(frozen=True)
class Centred:
    """Genotypes of v variants in CuPy arrays."""

    dense: Any
    """`float64[v, n]`: what the genotypes count, less their mean, and 0 where missing; whatever it be where a sample is not used."""
    calls: Any
    """`uint8[v, ceil(n / 4)]`: 3 where a used sample's genotype is missing; packed calls are their own."""
    moments: Any
    """`float64[4, v]`."""


def centre_calls(counts: Any, used: int, one: float, two: float, moments: Any, table: Any) -> None:
    """A thread takes a variant; every sum is one of whole numbers (or halves)."""
    variant = cuda.grid(1)
    if variant >= counts.shape[0]:
        return
    single, double = float(counts[variant, 1]), float(counts[variant, 2])
    called = float(used - counts[variant, 3])
    total, alt, some = one * single + two * double, single + 2.0 * double, max(called, 1.0)
    moments[0, variant] = called
    moments[1, variant] = alt / (2.0 * called) if called > 0 else np.nan
    moments[2, variant] = (called * (one * one * single + two * two * double) - total * total) / some
    moments[3, variant] = 0.0
    mean = total / some
    table[variant, 0] = -mean
    table[variant, 1] = one - mean
    table[variant, 2] = two - mean
    table[variant, 3] = 0.0


def _centre_calls(counts: Any, used: int, one: float, two: float, moments: Any, table: Any) -> None:
    single, double, called = counts[:, 1], counts[:, 2], used - counts[:, 3]
    total, some = one * single + two * double, np.maximum(called, 1)
    spread = (called * (one**2 * single + two**2 * double) - total**2) / some
    moments[:] = called, np.where(called > 0, (single + 2 * double) / 2 / some, np.nan), spread, 0 * spread
    table[:] = np.array([0, one, two, 0]) - (total / some)[:, None]
    table[:, 3] = 0


calls_centred = DeviceKernel(centre_calls, "int64[:,::1] int64 float64 float64 float64[:,::1] float64[:,::1]", _centre_calls, THREADS)
"""Write moments and what the calls stand for, `table: float64[v, 4]`, from `counts: int64[v, 4]` (columns 1 to 3) of the used samples."""


def coded(dosage: float, one: float, two: float) -> float:
    """What a dosage counts."""
    return one * min(dosage, 1.0) + (two - one) * max(dosage - 1.0, 0.0)


def summed(value: float, room: Any) -> float:
    """The sum of all threads' values, in a fixed order; every thread has it."""
    thread = cuda.threadIdx.x
    room[thread] = value
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half:
        if thread < half:
            room[thread] += room[thread + half]
        cuda.syncthreads()
        half //= 2
    total: float = room[0]
    cuda.syncthreads()
    return total


def largest(value: float, room: Any) -> float:
    """The largest of all threads' values, which are not below 0; every thread has it."""
    room[cuda.threadIdx.x] = value
    cuda.syncthreads()
    for other in range(cuda.blockDim.x):
        value = max(value, room[other])
    cuda.syncthreads()
    return value


def centre_dosages(dosages: Any, mask: Any, one: float, two: float, dense: Any, calls: Any, moments: Any) -> None:
    """A block takes a variant, a thread every n-th byte of four samples: their sums first, then what is left of them without the mean."""
    room = cuda.shared.array(128, np.float64)
    variant, thread, threads, samples = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x, dosages.shape[1]
    called = alt = total = size = 0.0
    for byte in range(thread, mask.shape[0], threads):
        made = 0
        for field in range(min(4, samples - 4 * byte)):
            if np.int32(mask[byte]) >> np.int32(2 * field) & 3:
                dosage = np.float64(dosages[variant, 4 * byte + field])
                if dosage == dosage:
                    called += 1.0
                    alt += dosage
                    total += coded(dosage, one, two)
                    size = max(size, coded(dosage, one, two))
                else:
                    made |= 3 << 2 * field
        calls[variant, byte] = made
    called, alt, total, size = summed(called, room), summed(alt, room), summed(total, room), largest(size, room)
    mean, squares = total / max(called, 1.0), 0.0
    for sample in range(thread, samples, threads):
        dosage, left = np.float64(dosages[variant, sample]), 0.0
        if np.int32(mask[sample >> 2]) >> np.int32(2 * (sample & 3)) & 3 and dosage == dosage:
            left = coded(dosage, one, two) - mean
        dense[variant, sample] = left
        squares += left * left
    squares = summed(squares, room)
    if thread == 0:
        moments[0, variant] = called
        moments[1, variant] = alt / 2.0 / called if called > 0 else np.nan
        moments[2, variant] = squares
        moments[3, variant] = called * (1e-12 * size) ** 2


def _centre_dosages(dosages: Any, mask: Any, one: float, two: float, dense: Any, calls: Any, moments: Any) -> None:
    fields = np.array([0, 2, 4, 6], np.uint8)
    used = (mask[:, None] >> fields & 3).reshape(-1)[: dosages.shape[1]] > 0
    known = ~np.isnan(dosages) & used
    alt = np.where(known, dosages, 0).astype(np.float64)
    value = one * np.minimum(alt, 1) + (two - one) * np.maximum(alt - 1, 0)
    called = known.sum(axis=1)
    some = np.maximum(called, 1)
    dense[:] = np.where(known, value - (value.sum(axis=1) / some)[:, None], 0)
    missing = np.zeros((len(dosages), 4 * len(mask)), np.uint8)
    missing[:, : dosages.shape[1]] = 3 * (np.isnan(dosages) & used)
    calls[:] = (missing.reshape(len(dosages), -1, 4) << fields).sum(axis=2)
    frequency = np.where(called > 0, alt.sum(axis=1) / 2 / some, np.nan)
    moments[:] = called, frequency, (dense**2).sum(axis=1), called * (1e-12 * value.max(axis=1, initial=0)) ** 2


dosages_centred = DeviceKernel(
    centre_dosages,
    "float32[:,::1] uint8[::1] float64 float64 float64[:,::1] uint8[:,::1] float64[:,::1]",
    _centre_dosages,
    THREADS,
    (coded, summed, largest),
)
"""Write the centred dosages of the samples of a packed mask, where theirs are missing, and the moments; a block for each variant."""


def centred(block: GenotypeBlock, mask: Any, used: int) -> Centred:
    """The genotypes of a block, centred among the `used` samples of a packed mask."""
    xp, (one, two), shape = block.xp, block.codes, (len(block), block.n_samples)
    moments = xp.empty((4, len(block)))
    if block.dosages is not None:
        dense, missing = xp.empty(shape), xp.empty((len(block), len(mask)), xp.uint8)
        dosages_centred(len(block), xp.ascontiguousarray(block.dosages), mask, one, two, dense, missing, moments)
        return Centred(dense, missing, moments)
    calls, counts, table = xp.ascontiguousarray(block.calls), xp.empty((len(block), 4), xp.int64), xp.empty((len(block), 4))
    variant_counts(blocks_for(len(block), VARIANTS), calls, mask, used, counts)
    calls_centred(blocks_for(len(block), THREADS), counts, used, one, two, moments, table)
    return Centred(decode(calls, block.n_samples, table), calls, moments)
