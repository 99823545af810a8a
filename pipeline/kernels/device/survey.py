"""What a block of threads finds out of one variant's likelihood at a point: its derivatives, and the steps that they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.kernels.device.people import (
    CANDIDATE,
    GRADIENT,
    INFORMATION,
    NEWTON,
    PENALTY,
    Model,
    Room,
    decomposed,
    leverage,
    solved,
    squared,
    staged,
    summed_up,
    weigh,
)

if TYPE_CHECKING:
    from numba import cuda


def cube_place(a: int, b: int, c: int) -> int:
    """Where the sum of products of three columns is, among those of all i >= j >= m."""
    i, m = max(a, b, c), min(a, b, c)
    j = a + b + c - i - m
    return i * (i + 1) * (i + 2) // 6 + j * (j + 1) // 2 + m


def bent(room: Room) -> None:
    """Adds to the curvature what comes of the weights' own derivatives: half the traces of S_c A^-1 S_d A^-1."""
    matrices, sums = room[2], room[3]
    columns = matrices.shape[1]
    inverse, turned, cubes = INFORMATION + 2 * columns, INFORMATION + 5 * columns, columns * (columns + 1) // 2
    for place in range(cuda.threadIdx.x, columns * columns * columns, cuda.blockDim.x):
        c, i, j = place // (columns * columns), place // columns % columns, place % columns
        total = 0.0
        for m in range(columns):
            total += sums[cubes + cube_place(c, i, m)] * matrices[inverse + m, j]
        matrices[turned + c * columns + i, j] = total
    cuda.syncthreads()
    for place in range(cuda.threadIdx.x, columns * columns, cuda.blockDim.x):
        c, d = place // columns, place % columns
        total = 0.0
        for i in range(columns):
            for j in range(columns):
                total += matrices[turned + c * columns + i, j] * matrices[turned + d * columns + j, i]
        matrices[INFORMATION + 3 * columns + c, d] += 0.5 * total
    cuda.syncthreads()


def put_right(room: Room, phase: int, firth: bool, size: int) -> None:
    """The right sides of a phase's equations: the gradient in its first `size` columns; the columns of 1 whose solution is the inverse."""
    matrices, sums = room[2], room[3]
    columns = matrices.shape[1]
    for column in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        if phase < 2:
            matrices[GRADIENT, column] = sums[1 - phase + column]
            matrices[NEWTON, column] = matrices[GRADIENT, column] if column < size else 0.0
        else:
            matrices[CANDIDATE, column] = matrices[GRADIENT, column] if column < size else 0.0
    if phase == 0 and firth:
        for place in range(cuda.threadIdx.x, columns * columns, cuda.blockDim.x):
            row, column = place // columns, place % columns
            matrices[INFORMATION + 2 * columns + row, column] = 1.0 if row == column else 0.0
    cuda.syncthreads()


def surveyed(model: Model, room: Room, entries: Any, plan: tuple[bool, int], phase: int) -> tuple[float, float]:
    """A phase of what is known of the point tried: the least pivot's share of its equations, and the (penalized) log likelihood.

    Phase 0: gradient, information, its factor, and Newton's step or the inverse. 1: the penalized gradient and Fisher's step. 2: the
    curvature, its factor, and Newton's step as a candidate.
    """
    firth, size = plan
    matrices, columns, factor, right, count = room[2], room[2].shape[1], INFORMATION + room[2].shape[1], NEWTON, 1
    squares = 1 + columns
    span = (0, squares + columns * (columns + 1) // 2) if phase == 0 else (1, squares) if phase == 1 else (squares, len(entries))
    summed_up(model, room, entries, span, min(phase, PENALTY))
    value, least, source = room[3][0], 1.0, INFORMATION
    if phase == 2:
        source, factor, right = INFORMATION + 3 * columns, INFORMATION + 4 * columns, CANDIDATE
    put_right(room, phase, firth, size)
    if phase != 1:
        squared(room, squares - span[0], source)
        if phase == 2:
            bent(room)
        least, determinant = decomposed(matrices, source, factor, size if phase else columns)
        value += 0.5 * determinant
    if phase == 0 and firth:
        right, count = INFORMATION + 2 * columns, columns
    solved(matrices, factor, columns if phase == 0 else size, right, count)
    return least, value


SURVEY = (staged, leverage, weigh, summed_up, squared, decomposed, solved, cube_place, bent, put_right, surveyed)
"""`surveyed`, and what it calls."""
