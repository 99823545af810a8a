"""Logistic regressions of single variants on a GPU: a block of threads climbs to a variant's maximum, with no word from the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.backend.launch import DeviceKernel
from pipeline.backend.memory import block_bytes
from pipeline.kernels.device.climbs import CLIMB, begun, climbed
from pipeline.kernels.device.people import FOUND, INFORMATION, THREADS, Model, Room, entries_of, extreme, together
from pipeline.kernels.logistic_null import NullModel

if TYPE_CHECKING:
    from numba import cuda

METHODS: tuple[Literal["wald"], Literal["firth"], Literal["firth_fallback"]] = ("wald", "firth", "firth_fallback")
BY_WALD, BY_FIRTH, BY_RATIO = 1, 2, 3
"""Places in `logistic_regression.TESTS`."""

_LARGEST_STEP, _ROUNDING = 3.0, 1e-11
_BLOCKS = 4096
_ROOM_BYTES = 1 << 30


def described(genotypes: Any, basis: Any, signs: Any, room: Room) -> tuple[Model, float]:
    """A variant's model, and the largest step of its coefficient."""
    total = called = most = 0.0
    for person in range(cuda.threadIdx.x, len(genotypes), cuda.blockDim.x):
        if genotypes[person] == genotypes[person]:
            total += genotypes[person]
            called += 1.0
    mean = together(total, room) / max(together(called, room), 1.0)
    for person in range(cuda.threadIdx.x, len(genotypes), cuda.blockDim.x):
        if genotypes[person] == genotypes[person]:
            most = max(most, abs(genotypes[person] - mean))
    return (genotypes, basis, signs, mean), _LARGEST_STEP / max(extreme(most, room), 1e-100)


def over(attempt: int, method: int, ratio: int, beta: float) -> bool:
    """Whether what was found does, before an attempt."""
    if attempt == 1:
        return method == 0 or (method == 2 and beta == beta)
    return attempt == 3 and not ratio


def refit_variants(
    genotypes: Any, basis: Any, signs: Any, start: Any, entries: Any, method: int, ratio: int, matrices: Any, sums: Any, found: Any
) -> None:
    """A block takes every n-th variant."""
    stage = cuda.shared.array(2048, np.float64)
    weights = cuda.shared.array((4, 128), np.float64)
    room = stage, weights, matrices[cuda.blockIdx.x], sums[cuda.blockIdx.x]
    columns = matrices.shape[2]
    for variant in range(cuda.blockIdx.x, genotypes.shape[0], cuda.gridDim.x):
        model, largest = described(genotypes[variant], basis, signs, room)
        beta = error = free = best = math.nan
        test = BY_WALD
        # Wald's, Firth's from the null model's fit and from zero, and both with no effect.
        for attempt in range(5):
            if over(attempt, method, ratio, beta):
                break
            if attempt == 0 and method == 1:
                continue
            begun(room[2], start, 1.0 if attempt % 2 or attempt == 0 else 0.0, attempt in (2, 4) and best == best)
            value, wrong = climbed(model, room, entries, (attempt > 0, columns - (attempt > 2)), largest)
            if attempt % 2 or best != best or value > best + _ROUNDING * (1.0 + abs(best)):
                best = value
                if attempt < 3:
                    beta, error = room[2][FOUND, columns - 1] if value == value else math.nan, wrong
            free = best if attempt == 2 else free
            test = BY_WALD if attempt == 0 else BY_FIRTH if attempt < 3 else BY_RATIO
        statistic = beta / error
        if test == BY_RATIO:
            gained = 2.0 * (free - best)
            statistic = math.copysign(math.sqrt(gained if not gained < 0 else 0.0), beta)
        if cuda.threadIdx.x == 0:
            found[0, variant] = beta
            found[1, variant] = error
            found[2, variant] = statistic
            found[3, variant] = test
        cuda.syncthreads()


def _refit_variants(
    genotypes: Any, basis: Any, signs: Any, start: Any, _entries: Any, method: int, ratio: int, _matrices: Any, _sums: Any, found: Any
) -> None:
    from pipeline.kernels.logistic_regression import refit

    fit = refit(genotypes, NullModel(np.ascontiguousarray(basis.T), signs, start), METHODS[method], "lrt" if ratio else "wald")
    found[:] = fit.beta, fit.standard_error, fit.statistic, fit.test


variant_refits = DeviceKernel(
    refit_variants,
    "float64[:,::1] float64[:,::1] float64[::1] float64[::1] int64[:,::1] int64 int64 float64[:,:,::1] float64[:,::1] float64[:,::1]",
    _refit_variants,
    THREADS,
    (*CLIMB, together, described, over),
)
"""Write beta, standard error, statistic and the place in `TESTS` of each variant, `float64[4, v]`; as many blocks as there are rooms.

`genotypes: float64[v, n]`, NaN where missing; `basis: float64[n, k]`, `signs: float64[n]`, `start: float64[k]` are the null model's;
`entries` are `entries_of(k + 1)`, `method` is a place in `METHODS`. A room is `float64[rows, k + 1]` and a sum for each entry, and thread.
"""


def refit_on_device(genotypes: Any, null: NullModel, method: str, *, ratio: bool) -> tuple[Any, Any, Any, Any]:
    """Beta, standard error and statistic, `float64[v]`, and places in `TESTS`, `uint8[v]`, of CuPy arrays."""
    xp, columns = array_module(genotypes), len(null.basis) + 1
    slow = method != "wald"
    entries, found = entries_of(columns, cubes=slow), xp.empty((4, len(genotypes)))
    rows = INFORMATION + 5 * columns + (columns**2 if slow else 0)
    number = max(THREADS, len(entries))
    blocks = max(1, min(_BLOCKS, len(genotypes), block_bytes(genotypes, _ROOM_BYTES) // (8 * (rows * columns + number))))
    model = xp.ascontiguousarray(null.basis.T), xp.ascontiguousarray(null.signs), xp.ascontiguousarray(null.coefficients)
    rooms = xp.empty((blocks, rows, columns)), xp.empty((blocks, number))
    if len(genotypes):
        arrays = xp.ascontiguousarray(genotypes), *model, xp.asarray(entries)
        variant_refits(blocks, *arrays, METHODS.index(method), int(ratio), *rooms, found)
    return found[0], found[1], found[2], found[3].astype(xp.uint8)
