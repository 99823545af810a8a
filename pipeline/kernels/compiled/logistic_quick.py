"""A few whole steps of many regressions, some variants at a time from the first step to the last, so that all they need stays near.

The products are those of NumPy's `dot`, which is BLAS here too. All is what the plain functions of logistic_quick.py give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled
from pipeline.kernels.compiled.logistic import fill_missed, fill_terms, land_each, largest_of, sum_of_products
from pipeline.kernels.compiled.logistic_systems import fill_squares, solve_each

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@compiled
def begin(people: Any, model: Any, start: Any, limits: Any, points: Any) -> tuple[Floats, Floats]:
    """What `score_start` gives for signed genotypes, into points (covariates' coefficients and the genotype's).

    Gives the genotypes' products with the whitened basis, `float64[v, k]`, and what the basis leaves of their information, `float64[v]`.
    """
    (signed, _), (_, signs, _, _), (coefficients, whitening, directions, weights) = people, model, start
    covariates, slopes = points
    columns = len(coefficients)
    products, sizes, weighted = np.dot(signed, (directions * signs).T), np.empty(len(signs)), np.empty(len(signs))
    explained, rest = products[:, :columns].copy(), np.empty(len(signed))
    for v in range(len(signed)):
        for i in range(len(signs)):
            sizes[i] = abs(signed[v, i])
            weighted[i] = weights[i] * signed[v, i]
        own, size = sum_of_products(weighted, signed[v]), largest_of(sizes)
        left = own
        for column in range(columns):
            left -= explained[v, column] * explained[v, column]
        rest[v] = max(left, limits.least_left * own + 1e-100)
        largest = limits.largest_step / max(size, 1e-100)
        slopes[v] = min(max(products[v, columns] / rest[v], -largest), largest)
    covariates[:] = coefficients
    covariates -= np.dot(explained, whitening) * np.expand_dims(slopes, 1)
    return explained, rest


@compiled
def _approach(people: Any, model: Any, metric: Any, limits: Any, points: Any, missed: Floats) -> None:
    """What `_approached` gives, in place of the points; `metric` is the start's whitening and what `begin` gives."""
    (signed, mask), (whitening, (explained, rest)), (covariates, slopes) = people, metric, points
    own, before = np.empty(len(slopes)), rest * slopes**2
    basis, _, _, shift = model
    for _ in range(limits.approaches):
        np.dot(covariates, basis, missed)
        missed += shift
        fill_missed(missed, signed, mask, slopes, own)
        turned = np.dot(np.dot(missed, basis.T), whitening.T)
        for v in range(len(slopes)):
            step = own[v]
            for column in range(turned.shape[1]):
                step -= explained[v, column] * turned[v, column]
            step /= rest[v]
            gain = rest[v] * step * step
            for column in range(turned.shape[1]):
                gain += turned[v, column] * turned[v, column]
                turned[v, column] -= explained[v, column] * step
            if gain < max(limits.shrinking * before[v], limits.near):
                slopes[v] += step
                before[v] = gain
            else:
                turned[v] = 0.0
        covariates += np.dot(turned, whitening)


@compiled
def inform(people: Any, model: Any, points: Any, swept: Any, terms: Any) -> None:
    """Missed probabilities, weights and weighted genotypes into `swept`; into `terms` the gradient and X'WX of the likelihood.

    The gradient's covariates are left to who may add to the missed probabilities.
    """
    (signed, mask), (basis, _, pairs, shift), (covariates, slopes) = people, model, points
    missed, weights, weighted = swept
    gradient, squares = terms
    own = np.empty(len(signed))
    np.dot(covariates, basis, missed)
    missed += shift
    fill_terms(missed, signed, mask, slopes, (weights, weighted, gradient, own))
    fill_squares(np.dot(weights, pairs.T), np.dot(weighted, basis.T), own, squares)


@compiled
def land(at: Places, people: Any, bends: Floats, model: Any, ends: Any, found: Any) -> None:
    """What `land` gives of the variants at `at`; all arguments are of all variants, but for what is found."""
    signed, mask = people
    step, turned = ends
    columns = step.shape[1] - 1
    both = np.empty((2 * len(at), columns))
    slopes = np.empty((2, len(at)))
    near = np.empty((3, len(at), signed.shape[1]))
    for i in range(len(at)):
        both[i], both[len(at) + i] = step[at[i], :columns], turned[at[i], :columns]
        slopes[0, i], slopes[1, i] = step[at[i], columns], turned[at[i], columns]
        near[0, i], near[1, i], near[2, i] = signed[at[i]], mask[at[i]], bends[at[i]]
    margins = np.dot(both, model[0])
    land_each(margins[: len(at)], margins[len(at) :], (near[0], near[1], near[2]), (slopes[0], slopes[1]), found)


@compiled
def keep(stay: NDArray[np.bool_], rows: Places, arrays: Any) -> int:
    """Moves the rows that stay to the front of all arrays, in place; gives how many they are."""
    count = 0
    for v in range(len(stay)):
        if stay[v]:
            if count < v:
                rows[count] = rows[v]
                for array in arrays:
                    array[count] = array[v]
            count += 1
    return count


@compiled
def load(first: int, count: int, people: Any, signs: Floats, signed: Floats, mask: Floats) -> None:
    """Signed genotypes and mask of some variants."""
    for v in range(count):
        for i in range(len(signs)):
            signed[v, i] = people[0][first + v, i] * signs[i]
            mask[v, i] = people[1][first + v, i]


@compiled
def wald_each(people: Any, model: Any, start: Any, limits: Any, found: Any) -> None:
    """What `quick_wald_plain` gives, into the points and standard errors of `found`, NaN before.

    `people` are centred genotypes and mask; `model` the signed basis, the signs, the products of the basis' pairs, and the signed
    offset; `start` the fields of a `Start`.
    """
    basis, signs, _, _ = model
    columns, size = len(basis), min(limits.together, len(people[0]))
    swept = np.empty((5, size, len(signs)))
    covariates, slopes, before, rows = np.empty((size, columns)), np.empty(size), np.empty(size), np.empty(size, np.int64)
    for first in range(0, len(people[0]), max(size, 1)):
        left = min(size, len(people[0]) - first)
        load(first, left, people, signs, swept[0], swept[1])
        rows[:left] = np.arange(first, first + left)
        before[:left] = 1.0
        begun, points = (swept[0, :left], swept[1, :left]), (covariates[:left], slopes[:left])
        metric = start[1], begin(begun, model, start, limits, points)
        _approach(begun, model, metric, limits, points, swept[2, :left])
        for _ in range(limits.wald_steps):
            if left == 0:
                break
            here = (swept[0, :left], swept[1, :left])
            left = _wald_step(here, model, (covariates[:left], slopes[:left], before[:left], rows[:left]), swept, limits, found)


@compiled
def _wald_step(people: Any, model: Any, state: Any, swept: Floats, limits: Any, found: Any) -> int:
    """One step of some variants; gives how many stay, which stand first then."""
    covariates, slopes, before, rows = state
    count, columns = covariates.shape
    missed, weights, weighted = swept[2, :count], swept[3, :count], swept[4, :count]
    own, squares, right = np.empty(count), np.empty((count, columns + 1, columns + 1)), np.zeros((count, columns + 1, 2))
    inform(people, model, (covariates, slopes), (missed, weights, weighted), (own, squares))
    gradient = np.dot(missed, model[0].T)
    right[:, :columns, 0] = gradient
    right[:, columns, 0] = own
    right[:, columns, 1] = 1.0
    least = np.empty(count)
    solve_each(squares, right, np.empty(count), least, np.empty(count))
    step, turned, stay, gains = right[:, :, 0].copy(), right[:, :, 1].copy(), np.zeros(count, np.bool_), np.empty(count)
    for v in range(count):
        gains[v] = own[v] * step[v, columns]
        for column in range(columns):
            gains[v] += gradient[v, column] * step[v, column]
        stay[v] = least[v] > limits.singular and gains[v] < limits.shrinking * before[v]
    near = np.flatnonzero(stay & (gains < limits.close))
    if len(near):
        _settle(near, people, model, (missed, weights, step, turned, gains), state, (limits, stay, found))
    covariates += step[:, :columns]
    slopes += step[:, columns]
    before[:] = gains
    keep(stay, rows.copy(), (slopes, before))
    return keep(stay, rows, (people[0], people[1], covariates))


@compiled
def _settle(near: Places, people: Any, model: Any, here: Any, state: Any, ends: Any) -> None:
    """Gives the variants that are at the maximum after their step; they do not stay."""
    missed, weights, step, turned, gains = here
    covariates, slopes, _, rows = state
    limits, stay, found = ends
    columns = covariates.shape[1]
    for v in near:
        for i in range(missed.shape[1]):
            weights[v, i] *= 2 * missed[v, i] - 1
    moves, changes = np.empty(len(near)), np.empty(len(near))
    land(near, people, weights, model, (step, turned), (moves, changes))
    for i in range(len(near)):
        v = near[i]
        if gains[v] * moves[i] ** 2 < limits.converged and moves[i] < limits.still:
            found[0][rows[v], :columns] = covariates[v] + step[v, :columns]
            found[0][rows[v], columns] = slopes[v] + step[v, columns]
            found[1][rows[v]] = np.sqrt(turned[v, columns] - changes[i])
            stay[v] = False
