"""What intercept and covariates leave of genotypes and traits, for many variants at once, each on its own called samples.

Notation is that of linear_regression.py: a variant's missing samples M make A = I - sum over M of l r' of k columns, L L' = A its Cholesky
factor, and c = -sum over M of l r for each trait. A block keeps A, b' and c' in rows of k numbers; in their place it makes those of
L, L^-1 b and L^-1 c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel

if TYPE_CHECKING:
    from numba import cuda

THREADS = 128
_BLOCKS = 4096
_TRAITS = 128
_WINDOW = 1024
"""Bytes of calls whose missing samples a block lists at a time."""


@dataclass(frozen=True)
class Explained:
    """Of v variants and t traits."""

    own: Any
    """`float64[2, v]`: what is left of g'g; the least pivot of A, 1 where nothing is missing."""
    crossed: Any
    """`float64[2, v, t]`: what is left of g'r, and of r'r."""


def listed(calls: Any, mask: Any, window: tuple[int, int], samples: Any, numbers: Any) -> int:
    """Lists the used samples whose calls are missing, by their places in the window of a variant; returns how many, to all threads.

    The window is the variant and the first byte. The order is that of the threads, which take every n-th byte: always the same.
    """
    variant, first = window
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    last, own = min(first + _WINDOW, calls.shape[1]), 0
    for byte in range(first + thread, last, threads):
        call = np.int32(calls[variant, byte] & mask[byte])
        own += cuda.popc(call & call >> 1 & 0x55)
    numbers[thread] = own
    cuda.syncthreads()
    place = total = 0
    for other in range(threads):
        if other == thread:
            place = total
        total += numbers[other]
    for byte in range(first + thread, last, threads):
        call = np.int32(calls[variant, byte] & mask[byte])
        for field in range(4):
            if call >> 2 * field & 3 == 3:
                samples[place] = 4 * (byte - first) + field
                place += 1
    cuda.syncthreads()
    return total


def taken_off(system: Any, listing: tuple[Any, int, int], left: Any, right: Any, shape: tuple[int, int, int]) -> None:
    """Takes the products of the listed samples off a variant's system; each number of it has a thread of its own."""
    samples, found, start = listing
    columns, first, count = shape
    rows = columns + 1 + count
    for place in range(cuda.threadIdx.x, rows * columns + count, cuda.blockDim.x):
        row, column = place // columns, place % columns
        total = 0.0
        if row >= rows:
            trait = columns + first + place - rows * columns
            for i in range(found):
                total += right[start + samples[i], trait] ** 2
        elif row > columns or column <= row < columns:
            source = row if row < columns else first + row - 1
            for i in range(found):
                sample = start + samples[i]
                total += left[sample, column] * right[sample, source]
        system[place] -= total


def whitened(system: Any, columns: int, rows: int, relative: int) -> float:
    """Turns A's rows into L's and those below into L^-1 times them; the least pivot, of A's own entry where `relative`."""
    least = 1.0
    for column in range(columns):
        cuda.syncthreads()
        pivot = own = system[column * columns + column]
        for before in range(column):
            pivot -= system[column * columns + before] ** 2
        least = min(least, pivot / own if relative and own > 0 else pivot)
        root = math.sqrt(pivot) if pivot > 0 else 1.0
        for row in range(column + 1 + cuda.threadIdx.x, rows, cuda.blockDim.x):
            value = system[row * columns + column]
            for before in range(column):
                value -= system[row * columns + before] * system[column * columns + before]
            system[row * columns + column] = value / root
    cuda.syncthreads()
    return least


def begun(system: Any, product: Any, totals: Any, shape: tuple[int, int, int]) -> None:
    """A variant's system where nothing is missing: A = I, b of the product, c = 0, and behind them r'r."""
    columns, first, count = shape
    rows = columns + 1 + count
    for place in range(cuda.threadIdx.x, rows * columns + count, cuda.blockDim.x):
        row, column = place // columns, place % columns
        if row >= rows:
            system[place] = totals[first + place - rows * columns]
        elif row == columns:
            system[place] = product[column]
        else:
            system[place] = 1.0 if row == column else 0.0


def finished(system: Any, product: Any, shape: tuple[int, int, int], crossed: Any, variant: int) -> None:
    """Writes what is left of g'r and r'r, a trait a thread."""
    columns, first, count = shape
    rows = columns + 1 + count
    for place in range(cuda.threadIdx.x, count, cuda.blockDim.x):
        shared = squares = 0.0
        for column in range(columns):
            value = system[(columns + 1 + place) * columns + column]
            shared += value * system[columns * columns + column]
            squares += value * value
        crossed[0, variant, first + place] = product[columns + first + place] - shared
        crossed[1, variant, first + place] = system[rows * columns + place] - squares


def explain_variants(
    calls: Any, mask: Any, left: Any, right: Any, product: Any, totals: Any,
    squares: Any, columns: int, relative: int, traits: int, systems: Any, own: Any, crossed: Any,
) -> None:  # fmt: skip
    """A block takes every n-th pair of a variant and `traits` traits."""
    samples = cuda.shared.array(4096, np.uint16)
    numbers = cuda.shared.array(128, np.int32)
    groups = -(-totals.shape[0] // traits)
    system = systems[cuda.blockIdx.x]
    for item in range(cuda.blockIdx.x, calls.shape[0] * groups, cuda.gridDim.x):
        variant, first = item // groups, item % groups * traits
        shape = (columns, first, min(traits, totals.shape[0] - first))
        begun(system, product[variant], totals, shape)
        missing = 0
        for byte in range(0, mask.shape[0], _WINDOW):
            found = listed(calls, mask, (variant, byte), samples, numbers)
            if found:
                taken_off(system, (samples, found, 4 * byte), left, right, shape)
            missing += found
        cuda.syncthreads()
        least = 1.0
        if missing:
            least = whitened(system, columns, columns + 1 + shape[2], relative)
        finished(system, product[variant], shape, crossed, variant)
        if first == 0 and cuda.threadIdx.x == 0:
            rest = squares[variant]
            for column in range(columns):
                rest -= system[columns * columns + column] ** 2
            own[0, variant] = rest
            own[1, variant] = least
        cuda.syncthreads()


def _explain_variants(
    calls: Any, mask: Any, left: Any, right: Any, product: Any, totals: Any,
    squares: Any, columns: int, relative: int, _traits: int, _systems: Any, own: Any, crossed: Any,
) -> None:  # fmt: skip
    fields = np.array([0, 2, 4, 6], np.uint8)
    missing = ((calls & mask)[:, :, None] >> fields & 3).reshape(len(calls), -1) == 3
    for variant, row in enumerate(missing):
        samples = np.flatnonzero(row)
        ours, theirs = left[samples, :columns], right[samples]
        system = np.eye(columns) - ours.T @ theirs[:, :columns]
        shifts, least = -ours.T @ theirs[:, columns:], 1.0
        genotype = product[variant, :columns].copy()
        for column in range(columns):
            pivot, entry = system[column, column], 1 - (ours[:, column] * theirs[:, column]).sum()
            least = min(least, pivot / entry if relative and entry > 0 else pivot)
            root = np.sqrt(pivot) if pivot > 0 else 1.0
            factor = system[column + 1 :, column] / root
            genotype[column], shifts[column] = genotype[column] / root, shifts[column] / root
            genotype[column + 1 :] -= factor * genotype[column]
            shifts[column + 1 :] -= factor[:, None] * shifts[column]
            system[column + 1 :, column + 1 :] -= np.outer(factor, factor)
        own[:, variant] = squares[variant] - genotype @ genotype, least
        crossed[0, variant] = product[variant, columns:] - genotype @ shifts
        crossed[1, variant] = totals - (theirs[:, columns:] ** 2).sum(axis=0) - (shifts**2).sum(axis=0)


explained_variants = DeviceKernel(
    explain_variants,
    "uint8[:,::1] uint8[::1] float64[:,::1] float64[:,::1] float64[:,::1] float64[::1] "
    "float64[::1] int64 int64 int64 float64[:,::1] float64[:,::1] float64[:,:,::1]",
    _explain_variants,
    THREADS,
    (listed, taken_off, whitened, begun, finished),
)
"""Write `own` and `crossed` of `Explained`; as many blocks as `systems` has rows.

`left: float64[n, k or more]` and `right: float64[n, k + t]` are l and, of columns and traits, r; 0 for samples that are not used.
`product: float64[v, k + t]` is g'r with genotypes that are 0 where missing, `totals: float64[t]` is r'r, `squares: float64[v]` is g'g.
A block takes `traits` traits at a time; `systems: float64[blocks, (k + 1 + traits) k + traits]` is its room.
"""


def explained(genotypes: tuple[Any, Any], mask: Any, sides: tuple[Any, Any], product: Any, totals: Any, *, relative: bool) -> Explained:
    """What is left of genotypes and traits when the samples whose calls are missing leave.

    `genotypes` are the calls, whose 3s count, and g'g; for the others see `explained_variants`. Pivots count as shares of A's own entries
    where `relative`.
    """
    calls, squares = genotypes
    xp = array_module(calls)
    traits = len(totals)
    columns, group = product.shape[1] - traits, max(1, min(traits, _TRAITS))
    own, crossed = xp.empty((2, len(calls))), xp.empty((2, len(calls), traits))
    blocks = min(_BLOCKS, len(calls) * -(-traits // group))
    systems = xp.empty((blocks, (columns + 1 + group) * columns + group))
    arrays = calls, mask, *sides, product, totals, squares
    explained_variants(blocks, *arrays, columns, int(relative), group, systems, own, crossed)
    return Explained(own, crossed)
