"""The way of a block of threads up to the maximum of one variant's likelihood, or of Firth's penalized one.

The ways, and what ends them, are those of logistic_wald.py and logistic_firth.py; K columns are those of the basis and the genotype.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pipeline.kernels.device.people import (
    CANDIDATE,
    FOUND,
    GRADIENT,
    INFORMATION,
    KNOWN,
    NEWTON,
    STEP,
    TAKEN,
    TRIED,
    Model,
    Room,
    dot,
    extreme,
)
from pipeline.kernels.device.survey import SURVEY, surveyed
from pipeline.kernels.logistic_null import CONVERGED, MOST_STEPS

if TYPE_CHECKING:
    from numba import cuda

AHEAD, BACK, DONE, LOST = range(4)
"""What to do from a point that was tried."""

_OVERSHOT, _SINGULAR, _SETTLED, _MOVED = -0.5, 1e-12, 1e-6, 0.1
_MOST_FIRTH_STEPS, _SLOW, _ROUNDING, _DEFINITE, _OFF, _NEAR = 100, 0.1, 1e-11, 1e-9, 0.1, 0.01


def begun(matrices: Any, start: Any, share: float, known: bool) -> None:
    """Begins at a share of the null model's coefficients, with no step; what was found last is the known point, or none is."""
    columns = matrices.shape[1]
    for column in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        matrices[TAKEN, column] = share * start[column] if column < columns - 1 else 0.0
        matrices[STEP, column] = 0.0
        matrices[KNOWN, column] = matrices[FOUND, column] if known else math.nan
    cuda.syncthreads()


def moved(matrices: Any, verdict: int, share: float) -> None:
    """Takes the point tried and a share of Newton's step, or keeps a share of the last step; and says which point is tried next."""
    for column in range(cuda.threadIdx.x, matrices.shape[1], cuda.blockDim.x):
        if verdict == AHEAD:
            matrices[TAKEN, column] = matrices[TRIED, column]
            matrices[STEP, column] = share * matrices[NEWTON, column]
        else:
            matrices[STEP, column] *= share
        matrices[TRIED, column] = matrices[TAKEN, column] + matrices[STEP, column]
    cuda.syncthreads()


def verdict_by_slope(model: Model, room: Room, least: float, gain: float, promised: float) -> tuple[int, float]:
    """What to do next for the likelihood's maximum, and the share of the step to go back by."""
    slope = dot(room[2], GRADIENT, STEP)
    if slope < _OVERSHOT * promised:
        return BACK, min(max(promised / (promised - slope), 0.1), 0.5)
    if not least > _SINGULAR:
        return LOST, 1.0
    if gain < _SETTLED:
        if not moved_most(model, room) < _MOVED:
            return LOST, 1.0
        if gain < CONVERGED:
            return DONE, 1.0
    return AHEAD, 1.0


def moved_most(model: Model, room: Room) -> float:
    """The most that Newton's step moves any known person's log odds."""
    genotypes, basis, _, mean = model
    matrices, most = room[2], 0.0
    columns = basis.shape[1]
    for person in range(cuda.threadIdx.x, len(genotypes), cuda.blockDim.x):
        if genotypes[person] == genotypes[person]:
            step = matrices[NEWTON, columns] * (genotypes[person] - mean)
            for column in range(columns):
                step += matrices[NEWTON, column] * basis[person, column]
            most = max(most, abs(step))
    return extreme(most, room)


def newton_instead(matrices: Any, least: float, gain: float, size: int) -> bool:
    """Takes the candidate step at a peak; off a saddle goes a tenth of a standard error. Returns whether this is a saddle."""
    columns = matrices.shape[1]
    peak = least > _DEFINITE
    saddle = not peak and gain < CONVERGED
    for column in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        if peak:
            matrices[NEWTON, column] = matrices[CANDIDATE, column]
        elif saddle and column == size - 1:
            matrices[NEWTON, column] += _OFF * math.sqrt(matrices[INFORMATION + 2 * columns + column, column])
    cuda.syncthreads()
    return saddle


def apart(matrices: Any) -> float:
    """How far the point tried is from the known one, in squares of standard errors; NaN where none is known."""
    columns, total = matrices.shape[1], 0.0
    for i in range(columns):
        for j in range(columns):
            other = matrices[TRIED, j] - matrices[KNOWN, j]
            total += (matrices[TRIED, i] - matrices[KNOWN, i]) * other * matrices[INFORMATION + i, j]
    cuda.syncthreads()
    return total


def settled(matrices: Any, firth: bool) -> float:
    """Puts what was found into its row; beta's standard error."""
    columns = matrices.shape[1]
    for column in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        matrices[FOUND, column] = matrices[TRIED, column] + matrices[NEWTON, column]
    cuda.syncthreads()
    if firth:
        return math.sqrt(matrices[INFORMATION + 3 * columns - 1, columns - 1])
    root: float = matrices[INFORMATION + 2 * columns - 1, columns - 1]
    return 1.0 / root


def explored(
    model: Model, room: Room, entries: Any, plan: tuple[bool, int], before: tuple[float, float, bool]
) -> tuple[tuple[float, float, float], tuple[bool, bool, bool]]:
    """The point tried: its value, the least pivot's share, and what Newton's step promises; whether it is up, slow, a saddle.

    `before` are the value of the point taken, what the step was to bring, and whether Fisher's information does not serve.
    """
    value, promised, slow = before
    here, least, gain, up, saddle = value, 1.0, 0.0, True, False
    for phase in range(3):
        pivot, found = surveyed(model, room, entries, plan, phase)
        if phase == 0:
            least, here = pivot, found if pivot > _SINGULAR or not plan[0] else -math.inf
            up = here >= value - _ROUNDING * (1.0 + abs(here)) or not plan[0]
        if phase == 2:
            saddle = newton_instead(room[2], pivot, gain, plan[1])
        if not saddle:
            gain = dot(room[2], GRADIENT, NEWTON)
        if not plan[0]:
            break
        if phase == 1:
            slow = slow or (up and gain > _SLOW * promised)
            if not (up and (slow or gain < CONVERGED)):
                break
    return (here, least, gain), (up, slow, saddle)


def verdict_by_value(matrices: Any, gain: float, up: bool, saddle: bool) -> tuple[int, float]:
    """What to do next for the penalized likelihood's maximum, and the share of the step to go back by."""
    if up and not saddle and gain < CONVERGED:
        return DONE, 1.0
    if apart(matrices) < _NEAR:
        return LOST, 1.0
    return (AHEAD, 1.0) if up else (BACK, 0.5)


def climbed(model: Model, room: Room, entries: Any, plan: tuple[bool, int], largest: float) -> tuple[float, float]:
    """The (penalized) log likelihood at the maximum reached from where the climb was begun, and beta's standard error.

    The plan says whether it is Firth's, and how many columns are free. The point is in FOUND. NaN where no maximum is reached, or the climb
    comes near the known one.
    """
    firth = plan[0]
    matrices, value, slow, promised = room[2], -math.inf, False, math.inf if firth else 0.0
    moved(matrices, BACK, 0.0)
    for _ in range(_MOST_FIRTH_STEPS if firth else MOST_STEPS + 1):
        (here, least, gain), (up, slow, saddle) = explored(model, room, entries, plan, (value, promised, slow))
        if firth:
            verdict, share = verdict_by_value(matrices, gain, up, saddle)
        else:
            verdict, share = verdict_by_slope(model, room, least, gain, promised)
        if verdict == DONE:
            return here, settled(matrices, firth)
        if verdict == LOST:
            break
        if verdict == AHEAD:
            share, value = min(1.0, largest / max(abs(matrices[NEWTON, matrices.shape[1] - 1]), 1e-100)), here
            promised = gain if firth else share * gain
        elif not firth:
            promised *= share
        moved(matrices, verdict, share)
    return math.nan, math.nan


CLIMB = (
    *SURVEY, dot, extreme, begun, moved, verdict_by_slope, moved_most, newton_instead, apart, settled, explored, verdict_by_value, climbed,
)  # fmt: skip
"""`begun`, `climbed`, and what they call."""
