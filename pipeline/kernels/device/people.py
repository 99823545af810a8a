"""Sums over the people of one variant's logistic regression, and its small systems of equations: what the threads of a block do together.

Notation is that of logistic_penalty.py. A person's row x are his columns of the basis, his genotype less its mean, and a 1. Sums are given
as entries: which of his four weights counts, and the places in x of three numbers that it is multiplied with. The compiler writes out a
function wherever it is called, so the long ones are called in one place each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numba import cuda

THREADS = 128
STAGED = 2048
"""Numbers of people's rows that a block has at hand at a time."""

LIKELIHOOD, PENALTY = range(2)
"""What weights are for: the log likelihood with gradient and information; the penalized gradient and its derivatives."""

Model = tuple[Any, Any, Any, float]
"""Genotypes of a variant `float64[n]`, NaN where missing; the basis `float64[n, k]`; signs `float64[n]`; the genotypes' mean."""
Room = tuple[Any, Any, Any, Any]
"""Rows of people and their weights in shared memory, `[STAGED]` and `[4, THREADS]`; matrices of K columns, and sums, of this block."""

TAKEN, STEP, TRIED, GRADIENT, NEWTON, CANDIDATE, KNOWN, FOUND, INFORMATION = range(9)
"""Rows of the matrices: eight vectors, then of K rows each the information, its factor, its inverse, the curvature and its factor."""


def entries_of(columns: int, *, cubes: bool) -> Any:
    """The sums of a model with K columns, `int64[e, 4]`: log likelihood, gradient, information; where wanted, products of three columns."""
    first = [(0, columns, columns, columns), *((1, i, columns, columns) for i in range(columns))]
    second = [(2, i, j, columns) for i in range(columns) for j in range(i + 1)]
    third = [(3, i, j, m) for i in range(columns) for j in range(i + 1) for m in range(j + 1)] if cubes else []
    return np.array([*first, *second, *third], np.int64)


def staged(model: Model, stage: Any, start: int, size: int) -> None:
    """Brings the rows of some people."""
    genotypes, basis, _, mean = model
    columns, thread = basis.shape[1], cuda.threadIdx.x
    for place in range(thread, size * columns, cuda.blockDim.x):
        person, column = place // columns, place % columns
        stage[person * (columns + 2) + column] = basis[start + person, column]
    if thread < size:
        genotype = genotypes[start + thread]
        stage[thread * (columns + 2) + columns] = genotype - mean if genotype == genotype else 0.0
        stage[thread * (columns + 2) + columns + 1] = 1.0
    cuda.syncthreads()


def leverage(stage: Any, row: int, matrices: Any) -> float:
    """x'A^-1x of a person."""
    columns = matrices.shape[1]
    total = 0.0
    for i in range(columns):
        inner = 0.0
        for j in range(i):
            inner += matrices[INFORMATION + 2 * columns + i, j] * stage[row + j]
        own = stage[row + i]
        total += own * (2.0 * inner + matrices[INFORMATION + 2 * columns + i, i] * own)
    return total


def weigh(model: Model, room: Room, person: int, mode: int) -> None:
    """A thread's person's weights at the point tried; `person` is his place in the model."""
    stage, weights, matrices, _ = room
    columns, thread = matrices.shape[1], cuda.threadIdx.x
    row, sign, margin = thread * (columns + 1), model[2][person], 0.0
    for column in range(columns):
        margin += matrices[TRIED, column] * stage[row + column]
    odds = math.exp(min(-sign * margin, 700.0))
    hit = 1.0 / (1.0 + odds)
    missed = odds * hit
    weight = missed * hit
    known = 1.0 if model[0][person] == model[0][person] else 0.0
    if mode == LIKELIHOOD:
        weights[0, thread] = known * math.log(hit)
        weights[1, thread] = known * sign * missed
        weights[2, thread] = known * weight
    else:
        h = weight * leverage(stage, row, matrices)
        weights[1, thread] = known * sign * (missed + h * (missed - 0.5))
        weights[2, thread] = known * (weight - 0.5 * h * (1.0 - 6.0 * weight))
        weights[3, thread] = known * sign * weight * (2.0 * missed - 1.0)


def summed_up(model: Model, room: Room, entries: Any, span: tuple[int, int], mode: int) -> None:
    """The sums of the entries from `span[0]` to `span[1]` over all people, into the room's sums; in a fixed order.

    Where there are more threads than sums, several share one, each with every n-th person.
    """
    stage, weights, matrices, sums = room
    first, count = span[0], span[1] - span[0]
    thread, threads, width = cuda.threadIdx.x, cuda.blockDim.x, matrices.shape[1] + 1
    slices, people = max(1, threads // count), min(threads, STAGED // width)
    share, entry = thread // count, thread % count
    if slices == 1:
        share, entry = 0, thread
    for place in range(thread, slices * count, threads):
        sums[place] = 0.0
    for start in range(0, len(model[0]), people):
        size = min(people, len(model[0]) - start)
        staged(model, stage, start, size)
        if thread < size:
            weigh(model, room, start + thread, mode)
        cuda.syncthreads()
        if share < slices:
            for place in range(entry, count, threads):
                which, i, j, m = entries[first + place, 0], entries[first + place, 1], entries[first + place, 2], entries[first + place, 3]
                total = 0.0
                for person in range(share, size, slices):
                    row = person * width
                    total += weights[which, person] * stage[row + i] * stage[row + j] * stage[row + m]
                sums[share * count + place] += total
        cuda.syncthreads()
    for place in range(thread, count, threads):
        for other in range(1, slices):
            sums[place] += sums[other * count + place]
    cuda.syncthreads()


def squared(room: Room, first: int, target: int) -> None:
    """Makes a symmetric matrix, from row `target` on, of sums from `first` on."""
    matrices, sums = room[2], room[3]
    columns = matrices.shape[1]
    for place in range(cuda.threadIdx.x, columns * columns, cuda.blockDim.x):
        i, j = max(place // columns, place % columns), min(place // columns, place % columns)
        matrices[target + place // columns, place % columns] = sums[first + i * (i + 1) // 2 + j]
    cuda.syncthreads()


def decomposed(matrices: Any, source: int, target: int, size: int) -> tuple[float, float]:
    """The Cholesky factor of the first `size` rows and columns; the least share of a pivot in its entry, and the log determinant.

    A pivot that is not above 0 stands as 1, with a share of 0.
    """
    least, determinant = 1.0, 0.0
    for column in range(size):
        cuda.syncthreads()
        own = pivot = matrices[source + column, column]
        for before in range(column):
            pivot -= matrices[target + column, before] ** 2
        least = min(least, pivot / own) if pivot > 0 else 0.0
        root = math.sqrt(pivot) if pivot > 0 else 1.0
        determinant += 2.0 * math.log(root)
        for row in range(column + 1 + cuda.threadIdx.x, size, cuda.blockDim.x):
            value = matrices[source + row, column]
            for before in range(column):
                value -= matrices[target + row, before] * matrices[target + column, before]
            matrices[target + row, column] = value / root
        if cuda.threadIdx.x == 0:
            matrices[target + column, column] = root
    cuda.syncthreads()
    return least, determinant


def solved(matrices: Any, factor: int, size: int, right: int, count: int) -> None:
    """Turns `count` right sides, rows from `right` on, into solutions by a Cholesky factor; a thread takes a side."""
    for side in range(right + cuda.threadIdx.x, right + count, cuda.blockDim.x):
        for row in range(size):
            value = matrices[side, row]
            for before in range(row):
                value -= matrices[factor + row, before] * matrices[side, before]
            matrices[side, row] = value / matrices[factor + row, row]
        for row in range(size - 1, -1, -1):
            value = matrices[side, row]
            for after in range(row + 1, size):
                value -= matrices[factor + after, row] * matrices[side, after]
            matrices[side, row] = value / matrices[factor + row, row]
    cuda.syncthreads()


def dot(matrices: Any, one: int, other: int) -> float:
    """The product of two rows; every thread has it."""
    total = 0.0
    for column in range(matrices.shape[1]):
        total += matrices[one, column] * matrices[other, column]
    cuda.syncthreads()
    return total


def together(value: float, room: Room) -> float:
    """The sum of all threads' values, in a fixed order; every thread has it."""
    weights, total = room[1], 0.0
    weights[0, cuda.threadIdx.x] = value
    cuda.syncthreads()
    for other in range(cuda.blockDim.x):
        total += weights[0, other]
    cuda.syncthreads()
    return total


def extreme(value: float, room: Room) -> float:
    """The largest of all threads' values, which are not below 0; every thread has it."""
    weights = room[1]
    weights[0, cuda.threadIdx.x] = value
    cuda.syncthreads()
    for other in range(cuda.blockDim.x):
        value = max(value, weights[0, other])
    cuda.syncthreads()
    return value
