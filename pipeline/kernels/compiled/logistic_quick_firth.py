"""Firth's regressions by a few whole steps, as logistic_quick.py has those of maximum likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined
from pipeline.kernels.compiled.logistic import penalize
from pipeline.kernels.compiled.logistic_quick import begin, inform, keep, land, load
from pipeline.kernels.compiled.logistic_systems import fill_pairs, invert_each

Floats = NDArray[np.float64]


@compiled
def firth_each(people: Any, model: Any, start: Any, limits: Any, found: Any, free: bool) -> None:
    """What `quick_firth_plain` gives; arguments are those of `wald_each`."""
    basis, signs, _, _ = model
    columns, size = len(basis), min(limits.together, len(people[0]))
    swept, rows = np.empty((7, size, len(signs))), np.empty(size, np.int64)
    covariates, slopes, before = np.empty((size, columns)), np.empty(size), np.empty(size)
    trail = np.empty((3, size, columns + 1))  # the last step, the last move, the last gradient
    for first in range(0, len(people[0]), max(size, 1)):
        left = min(size, len(people[0]) - first)
        begun = swept[0, :left], swept[1, :left]
        load(first, people, signs, begun, (before[:left], rows[:left]))
        trail[:] = 0.0
        if free:
            begin(begun, model, start, limits, (covariates[:left], slopes[:left]))
        else:
            for v in range(left):
                slopes[v] = 0.0
                for column in range(columns):
                    covariates[v, column] = start[0][column]
        for _ in range(limits.firth_steps):
            if left == 0:
                break
            state = (covariates[:left], slopes[:left], before[:left], rows[:left], trail)
            left = _firth_step((swept[0, :left], swept[1, :left]), model, state, swept, (limits, free), found)


@inlined
def _penalized(people: Any, model: Any, points: Any, swept: Floats, terms: Any) -> None:
    """What `penalized_terms` gives: into `swept` missed probabilities, weights and leverages, into `terms` the others."""
    (signed, _), (basis, _, pairs, _) = people, model
    count, columns = points[0].shape
    missed, weights, weighted, hats, cross = (
        swept[2, :count], swept[3, :count], swept[4, :count], swept[5, :count], swept[6, :count]
    )  # fmt: skip
    gradient, inverse, largest, least = terms
    squares, own = np.empty((count, columns + 1, columns + 1)), np.empty(count)
    inform(people, model, points, (missed, weights, weighted), (own, squares))
    invert_each(squares, inverse, least, np.empty(count))
    sums = np.empty((count, columns * (columns + 1) // 2))
    fill_pairs(inverse, sums)
    np.dot(sums, pairs, hats)
    corner, last = np.empty((count, columns)), np.empty(count)
    for v in range(count):
        for column in range(columns):
            corner[v, column] = 2 * inverse[v, columns, column]
        last[v] = inverse[v, columns, columns]
    np.dot(corner, basis, cross)
    penalize(missed, weights, signed, (hats, cross, last), (own, largest))
    slopes = np.dot(missed, basis.T)
    for v in range(count):
        for column in range(columns):
            gradient[v, column] = slopes[v, column]
        gradient[v, columns] = own[v]


@inlined
def _aim(inverse: Floats, gradient: Floats, trail: Any, first: bool, free: bool) -> float:
    """Of one variant: Fisher's step, then the move that a secant makes of it, and what it gains; `trail` goes on."""
    step, move, slope = trail
    columns = len(gradient) - 1
    fisher = np.empty(columns + 1)
    for row in range(columns + 1):
        fisher[row] = 0.0
        for column in range(columns + 1):
            fisher[row] += inverse[row, column] * gradient[column]
    if not free:
        held = fisher[columns] / inverse[columns, columns]
        for row in range(columns):
            fisher[row] -= inverse[columns, row] * held
        fisher[columns] = gradient[columns] = 0.0
    above, below, gain = 0.0, 0.0, 0.0
    for row in range(columns + 1):
        turn = fisher[row] - step[row]
        above += turn * gradient[row]
        below += turn * (gradient[row] - slope[row])
        gain += fisher[row] * gradient[row]
    share = 0.0 if first else min(max(above / max(below, 1e-300), -0.5), 0.5)
    for row in range(columns + 1):
        move[row] = fisher[row] - share * (move[row] + fisher[row] - step[row])
        step[row], slope[row] = fisher[row], gradient[row]
    return gain


@inlined
def _firth_step(people: Any, model: Any, state: Any, swept: Floats, how: Any, found: Any) -> int:
    """One step of some variants; gives how many stay, which stand first then."""
    covariates, slopes, before, rows, trail = state
    limits, free = how
    count, columns = covariates.shape
    gradient, inverse = np.empty((count, columns + 1)), np.empty((count, columns + 1, columns + 1))
    largest, least = np.empty(count), np.empty(count)
    _penalized(people, model, (covariates, slopes), swept, (gradient, inverse, largest, least))
    stay, near, done = np.zeros(count, np.bool_), np.empty(count, np.int64), 0
    missed, weights, hats = swept[2], swept[3], swept[5]
    for v in range(count):
        gain = _aim(inverse[v], gradient[v], (trail[0, v], trail[1, v], trail[2, v]), before[v] >= 1, free)
        stay[v] = least[v] > limits.singular and gain < limits.shrinking * before[v] and largest[v] < 2 * limits.one_maximum
        if stay[v] and gain < limits.close and gain * max(gain / before[v], limits.slowest) < limits.converged:
            stay[v] = False
            if largest[v] < limits.one_maximum:
                for i in range(missed.shape[1]):
                    weights[v, i] *= (2 * missed[v, i] - 1) / (1 + hats[v, i])
                near[done] = v
                done += 1
        before[v] = gain
    moves, changes = np.empty(done), np.empty(done)
    if done:
        turned = np.empty((count, columns + 1))
        for v in near[:done]:
            for column in range(columns + 1):
                turned[v, column] = inverse[v, columns, column]
        land(near[:done], people, weights, model, (trail[1], turned), (moves, changes))
    for v in range(count):
        for column in range(columns):
            covariates[v, column] += trail[1, v, column]
        slopes[v] += trail[1, v, columns]
    for i in range(done):
        v = near[i]
        for column in range(columns):
            found[0][rows[v], column] = covariates[v, column]
        found[0][rows[v], columns] = slopes[v]
        found[1][rows[v]] = np.sqrt(inverse[v, columns, columns] - changes[i])
    return keep(stay, rows, (slopes, before), (people[0], people[1], covariates, trail[0], trail[1], trail[2]))
