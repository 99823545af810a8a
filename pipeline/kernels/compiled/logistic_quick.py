"""A few whole steps of many regressions, some variants at a time from the first step to the last, so that all they need stays near.

The products are those of NumPy's `dot`, which is BLAS here too. All is what the plain functions of logistic_quick.py give.

Numbers are copied and added in loops: an assignment to a whole row or array compiles in ten times the time, with the text of its error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined
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
    explained, rest = np.empty((len(signed), columns)), np.empty(len(signed))
    for v in range(len(signed)):
        for i in range(len(signs)):
            sizes[i] = abs(signed[v, i])
            weighted[i] = weights[i] * signed[v, i]
        own, size = sum_of_products(weighted, signed[v]), largest_of(sizes)
        left = own
        for column in range(columns):
            explained[v, column] = products[v, column]
            left -= products[v, column] * products[v, column]
        rest[v] = max(left, limits.least_left * own + 1e-100)
        largest = limits.largest_step / max(size, 1e-100)
        slopes[v] = min(max(products[v, columns] / rest[v], -largest), largest)
    moved = np.dot(explained, whitening)
    for v in range(len(signed)):
        for column in range(columns):
            covariates[v, column] = coefficients[column] - moved[v, column] * slopes[v]
    return explained, rest


@inlined
def _add_each(to: Floats, added: Floats) -> None:
    """Adds the first columns of an array `float64[v, k or more]` to `float64[v, k]`."""
    for v in range(len(to)):
        for column in range(to.shape[1]):
            to[v, column] += added[v, column]


@inlined
def _shift_each(to: Floats, shift: Floats) -> None:
    """Adds a row `float64[n]` to each of `float64[v, n]`."""
    for v in range(len(to)):
        for i in range(to.shape[1]):
            to[v, i] += shift[i]


@inlined
def _approach(people: Any, model: Any, metric: Any, limits: Any, points: Any, missed: Floats) -> None:
    """What `_approached` gives, in place of the points; `metric` is the start's whitening and what `begin` gives."""
    (signed, mask), (whitening, (explained, rest)), (covariates, slopes) = people, metric, points
    own, before = np.empty(len(slopes)), np.empty(len(slopes))
    basis, _, _, shift = model
    for v in range(len(slopes)):
        before[v] = rest[v] * (slopes[v] * slopes[v])
    for _ in range(limits.approaches):
        np.dot(covariates, basis, missed)
        _shift_each(missed, shift)
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
                for column in range(turned.shape[1]):
                    turned[v, column] = 0.0
        _add_each(covariates, np.dot(turned, whitening))


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
    _shift_each(missed, shift)
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
        v = at[i]
        for column in range(columns):
            both[i, column], both[len(at) + i, column] = step[v, column], turned[v, column]
        slopes[0, i], slopes[1, i] = step[v, columns], turned[v, columns]
        for person in range(signed.shape[1]):
            near[0, i, person], near[1, i, person], near[2, i, person] = signed[v, person], mask[v, person], bends[v, person]
    margins = np.dot(both, model[0])
    land_each(margins[: len(at)], margins[len(at) :], (near[0], near[1], near[2]), (slopes[0], slopes[1]), found)


@compiled
def keep(stay: NDArray[np.bool_], rows: Places, numbers: Any, arrays: Any) -> int:
    """Moves the rows that stay to the front of `rows`, of numbers `float64[v]` and arrays `float64[v, n]`; gives how many they are."""
    count = 0
    for v in range(len(stay)):
        if stay[v]:
            if count < v:
                rows[count] = rows[v]
                for each in numbers:
                    each[count] = each[v]
                for array in arrays:
                    for i in range(array.shape[1]):
                        array[count, i] = array[v, i]
            count += 1
    return count


@compiled
def load(first: int, people: Any, signs: Floats, begun: Any, state: Any) -> None:
    """Signed genotypes and mask of some variants, their rows, and what their last step promised, which is 1 before the first."""
    signed, mask = begun
    before, rows = state
    for v in range(len(rows)):
        before[v], rows[v] = 1.0, first + v
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
        begun, points = (swept[0, :left], swept[1, :left]), (covariates[:left], slopes[:left])
        load(first, people, signs, begun, (before[:left], rows[:left]))
        metric = start[1], begin(begun, model, start, limits, points)
        _approach(begun, model, metric, limits, points, swept[2, :left])
        for _ in range(limits.wald_steps):
            if left == 0:
                break
            here = (swept[0, :left], swept[1, :left])
            left = _wald_step(here, model, (covariates[:left], slopes[:left], before[:left], rows[:left]), swept, limits, found)


@inlined
def _wald_step(people: Any, model: Any, state: Any, swept: Floats, limits: Any, found: Any) -> int:
    """One step of some variants; gives how many stay, which stand first then."""
    covariates, slopes, before, rows = state
    count, columns = covariates.shape
    missed, weights, weighted = swept[2, :count], swept[3, :count], swept[4, :count]
    own, squares, right = np.empty(count), np.empty((count, columns + 1, columns + 1)), np.zeros((count, columns + 1, 2))
    inform(people, model, (covariates, slopes), (missed, weights, weighted), (own, squares))
    gradient = np.dot(missed, model[0].T)
    for v in range(count):
        for column in range(columns):
            right[v, column, 0] = gradient[v, column]
        right[v, columns, 0], right[v, columns, 1] = own[v], 1.0
    least = np.empty(count)
    solve_each(squares, right, np.empty(count), least, np.empty(count))
    step, turned, gains = np.empty((count, columns + 1)), np.empty((count, columns + 1)), np.empty(count)
    stay, near, done = np.zeros(count, np.bool_), np.empty(count, np.int64), 0
    for v in range(count):
        for column in range(columns + 1):
            step[v, column], turned[v, column] = right[v, column, 0], right[v, column, 1]
        gains[v] = own[v] * step[v, columns]
        for column in range(columns):
            gains[v] += gradient[v, column] * step[v, column]
        stay[v] = least[v] > limits.singular and gains[v] < limits.shrinking * before[v]
        if stay[v] and gains[v] < limits.close:
            near[done] = v
            done += 1
    if done:
        _settle(near[:done], people, model, (missed, weights, step, turned, gains), state, (limits, stay, found))
    _add_each(covariates, step)
    for v in range(count):
        slopes[v] += step[v, columns]
        before[v] = gains[v]
    return keep(stay, rows, (slopes, before), (people[0], people[1], covariates))


@inlined
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
            for column in range(columns):
                found[0][rows[v], column] = covariates[v, column] + step[v, column]
            found[0][rows[v], columns] = slopes[v] + step[v, columns]
            found[1][rows[v]] = np.sqrt(turned[v, columns] - changes[i])
            stay[v] = False
