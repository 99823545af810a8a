"""The regressions of most variants: a few whole steps from the score test's, without the care that the others need.

What is given is the answer that care gives too. The likelihood is concave, so where its slope is none is its maximum. The penalized
likelihood (notation of logistic_penalty.py) need not be. But at any b with weights v and margins m, and from a b0 with w and q,

    l*(b) - l*(b0)  <=  sum of f(m) - f(m0),  f(m) = -log(1 + exp(-m)) + q v / 2,

as log |A| is concave in A, and both sides have the same slope at b0. f'' = -v (1 - q (1 - 6 v) / 2) is below 0 everywhere if q < 2. So a
point without slope where nobody's q reaches 2 is the only maximum, and no second search is due.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_null import CONVERGED, NullModel, Start
from pipeline.kernels.logistic_penalty import PenalizedTerms, penalized_terms
from pipeline.kernels.logistic_terms import Maximum, land, likelihood_terms, solve
from pipeline.kernels.logistic_wald import LARGEST_STEP, LEAST_LEFT, score_start


class Limits(NamedTuple):
    """What decides whether a variant is settled, goes on, or is left to the careful search."""

    approaches: int = 2
    """Steps by the information of the model without a variant, which cost a third of those by a variant's own."""
    near: float = 0.1
    """What such a step may promise even where the last promised less: it is no more than half a standard error."""
    wald_steps: int = 5
    firth_steps: int = 9
    together: int = 32
    """Variants whose temporaries a compiled kernel holds."""
    largest_step: float = LARGEST_STEP
    least_left: float = LEAST_LEFT
    shrinking: float = 0.5
    close: float = 1e-6
    converged: float = CONVERGED
    still: float = 3e-4
    """Of log odds: standard errors are right to its square."""
    slowest: float = 1e-3
    one_maximum: float = 1.9
    singular: float = 1e-12


_LIMITS = Limits()
_BLOCK_BYTES = 4 << 20


def quick_wald(centred: Array, mask: Array, null: NullModel) -> Maximum:
    """Maxima of the likelihood where they are found soon, else NaN; arguments are those of `wald`."""
    if null.xp is np and null.holds_pairs:
        from pipeline.kernels.compiled.logistic_quick import wald_each

        found = Maximum.unknown(null, len(centred))
        wald_each((centred, mask), _model(null), _fields(null.start), _limits(null), (found.point, found.standard_error))
        return found
    return quick_wald_plain(centred, mask, null)


def quick_firth(centred: Array, mask: Array, null: NullModel, *, free: bool = True) -> Maximum:
    """Maxima of the penalized likelihood where they are found soon and are the only ones, else NaN; arguments are those of `firth`."""
    if null.xp is np and null.holds_pairs:
        from pipeline.kernels.compiled.logistic_quick_firth import firth_each

        found = Maximum.unknown(null, len(centred))
        ends = found.point, found.standard_error
        firth_each((centred, mask), _model(null), _fields(null.penalized_start), _limits(null), ends, free)
        return found
    return quick_firth_plain(centred, mask, null, free=free)


def _model(null: NullModel) -> tuple[Array, Array, Array, Array]:
    """Signed basis, signs, the products of the basis' pairs, and the signed offset, as compiled kernels take them."""
    return null.signed, null.signs, next(products for _, products in null.pair_blocks()), null.shift


def _fields(start: Start) -> tuple[Array, ...]:
    """Those of a start, as compiled kernels take them."""
    return start.coefficients, start.whitening, start.directions, start.weights


def _limits(null: NullModel) -> Limits:
    """With fewer variants together where people are many."""
    return _LIMITS._replace(together=max(1, min(_LIMITS.together, _BLOCK_BYTES // (8 * len(null.signs)))))


def quick_wald_plain(centred: Array, mask: Array, null: NullModel) -> Maximum:
    """What `quick_wald` gives, by array operations: on a GPU, and as the compiled kernel's oracle."""
    xp, columns = null.xp, len(null.basis)
    found, rows = Maximum.unknown(null, len(centred)), xp.arange(len(centred))
    signed, point, before = centred * null.signs, _approached(centred, mask, null), xp.ones(len(centred))
    for _ in range(_LIMITS.wald_steps):
        terms = likelihood_terms(signed, mask, null, point)
        right = xp.zeros((*point.shape, 2))
        right[:, :, 0], right[:, columns, 1] = terms.gradient, 1
        solved = solve(terms.information, right)
        step, turned = solved.solution[:, :, 0], solved.solution[:, :, 1]
        gain = (terms.gradient * step).sum(axis=1)
        stay = (solved.least > _LIMITS.singular) & (gain < _LIMITS.shrinking * before)
        near = xp.nonzero(stay & (gain < _LIMITS.close))[0]
        if len(near):
            bends = terms.weights[near] * (2 * terms.missed[near] - 1)
            moved, change = land((signed[near], mask[near], bends), null, step[near], turned[near])
            # A step leaves a share of itself of about what it moves the log odds by.
            done = (gain[near] * moved**2 < CONVERGED) & (moved < _LIMITS.still)
            at = near[done]
            found.point[rows[at]] = (point + step)[at]
            found.standard_error[rows[at]] = (turned[at, columns] - change[done]) ** 0.5
            stay[at] = False
        rows, signed, mask, point, before = (array[stay] for array in (rows, signed, mask, point + step, gain))
        if not len(rows):
            break
    return found


def _approached(centred: Array, mask: Array, null: NullModel) -> Array:
    """From the score test's step on by the null model's information, as long as steps promise less and less: `float64[v, k + 1]`."""
    xp, start, columns = null.xp, null.start, len(null.basis)
    signed, point = centred * null.signs, score_start(centred, start)
    explained, own = centred @ start.directions[:columns].T, (centred**2) @ start.weights
    rest = xp.maximum(own - (explained**2).sum(axis=1), LEAST_LEFT * own + 1e-100)
    before = rest * point[:, columns] ** 2
    for _ in range(_LIMITS.approaches):
        gradient = likelihood_terms(signed, mask, null, point).gradient
        turned = gradient[:, :columns] @ start.whitening.T
        step = (gradient[:, columns] - (explained * turned).sum(axis=1)) / rest
        gain = rest * step**2 + (turned**2).sum(axis=1)
        less = gain < xp.maximum(_LIMITS.shrinking * before, _LIMITS.near)
        covariates = (turned - explained * step[:, None]) @ start.whitening
        point = xp.where(less[:, None], point + xp.concatenate([covariates, step[:, None]], axis=1), point)
        before = xp.where(less, gain, before)
    return point


def quick_firth_plain(centred: Array, mask: Array, null: NullModel, *, free: bool = True) -> Maximum:
    """What `quick_firth` gives, by array operations: on a GPU, and as the compiled kernel's oracle."""
    xp = null.xp
    found, rows = Maximum.unknown(null, len(centred)), xp.arange(len(centred))
    signed, point, before = centred * null.signs, score_start(centred, null.penalized_start), xp.ones(len(centred))
    if not free:
        point[:] = xp.append(null.penalized_start.coefficients, 0.0)
    step = xp.zeros_like(point)
    move, slope = step, step
    for _ in range(_LIMITS.firth_steps):
        terms = penalized_terms(signed, mask, null, point, valued=False)
        last, (step, gradient) = step, _fisher_step(terms, free=free)
        gain = (gradient * step).sum(axis=1)
        stay = terms.regular & (gain < _LIMITS.shrinking * before) & (terms.largest < 2 * _LIMITS.one_maximum)
        # Fisher's information leaves out the second derivatives of the penalty; what the last step left tells their share (a secant).
        turn = step - last
        share = (turn * gradient).sum(axis=1) / xp.maximum((turn * (gradient - slope)).sum(axis=1), 1e-300)
        share = xp.where(before < 1, xp.clip(share, -0.5, 0.5), 0.0)[:, None]
        move = step - share * (move + turn)
        close = stay & (gain < _LIMITS.close) & (gain * xp.maximum(gain / before, _LIMITS.slowest) < CONVERGED)
        done = xp.nonzero(close & (terms.largest < _LIMITS.one_maximum))[0]
        if len(done):
            bends = terms.weights[done] * (2 * terms.missed[done] - 1) / (1 + terms.leverages[done])
            turned = terms.inverse[done, -1]
            _, change = land((signed[done], mask[done], bends), null, move[done], turned)
            found.point[rows[done]] = (point + move)[done]
            found.standard_error[rows[done]] = (turned[:, -1] - change) ** 0.5
        stay &= ~close
        if not bool(stay.any()):
            break
        rows, signed, mask, before = (array[stay] for array in (rows, signed, mask, gain))
        point, step, move, slope = (array[stay] for array in (point + move, step, move, gradient))
    return found


def _fisher_step(terms: PenalizedTerms, *, free: bool) -> tuple[Array, Array]:
    """A^-1 times the gradient, and the gradient, `float64[v, k + 1]` each; without `free` of the covariates alone."""
    step = (terms.inverse @ terms.gradient[:, :, None])[:, :, 0]
    if free:
        return step, terms.gradient
    corner = terms.inverse[:, -1]
    step = step - corner * (step[:, -1:] / corner[:, -1:])
    gradient = terms.gradient.copy()
    step[:, -1] = gradient[:, -1] = 0
    return step, gradient
