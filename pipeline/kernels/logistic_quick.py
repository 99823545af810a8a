"""The regressions of most variants: a few whole steps from the score test's, without the care that the others need.

What is given is the answer that care gives too. The likelihood is concave, so where its slope is none is its maximum. The penalized
likelihood (notation of logistic_penalty.py) need not be. But at any b with weights v and margins m, and from a b0 with w and q,

    l*(b) - l*(b0)  <=  sum of f(m) - f(m0),  f(m) = -log(1 + exp(-m)) + q v / 2,

as log |A| is concave in A, and both sides have the same slope at b0. f'' = -v (1 - q (1 - 6 v) / 2) is below 0 everywhere if q < 2. So a
point without slope where nobody's q reaches 2 is the only maximum, and no second search is due.
"""

from __future__ import annotations

from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_null import CONVERGED, NullModel
from pipeline.kernels.logistic_penalty import PenalizedTerms, penalized_terms
from pipeline.kernels.logistic_terms import Maximum, land, likelihood_terms, solve
from pipeline.kernels.logistic_wald import score_start

_WALD_STEPS, _FIRTH_STEPS = 4, 7
_SHRINKING = 0.25
_CLOSE = 1e-6
_STILL = 3e-4  # of log odds; standard errors are right to its square
_SLOWEST = 1e-3
_ONE_MAXIMUM = 1.9
_SINGULAR = 1e-12


def quick_wald(centred: Array, mask: Array, null: NullModel) -> Maximum:
    """Maxima of the likelihood where they are found soon, else NaN; arguments are those of `wald`."""
    xp, columns = null.xp, len(null.basis)
    found, rows = Maximum.unknown(null, len(centred)), xp.arange(len(centred))
    signed, point, before = centred * null.signs, score_start(centred, null.start), xp.ones(len(centred))
    for _ in range(_WALD_STEPS):
        terms = likelihood_terms(signed, mask, null, point)
        right = xp.zeros((*point.shape, 2))
        right[:, :, 0], right[:, columns, 1] = terms.gradient, 1
        solved = solve(terms.information, right)
        step, turned = solved.solution[:, :, 0], solved.solution[:, :, 1]
        gain = (terms.gradient * step).sum(axis=1)
        stay = (solved.least > _SINGULAR) & (gain < _SHRINKING * before)
        near = xp.nonzero(stay & (gain < _CLOSE))[0]
        if len(near):
            bends = terms.weights[near] * (2 * terms.missed[near] - 1)
            moved, change = land((signed[near], mask[near], bends), null, step[near], turned[near])
            # A step leaves a share of itself of about what it moves the log odds by.
            done = (gain[near] * moved**2 < CONVERGED) & (moved < _STILL)
            at = near[done]
            found.point[rows[at]] = (point + step)[at]
            found.standard_error[rows[at]] = (turned[at, columns] - change[done]) ** 0.5
            stay[at] = False
        rows, signed, mask, point, before = (array[stay] for array in (rows, signed, mask, point + step, gain))
        if not len(rows):
            break
    return found


def quick_firth(centred: Array, mask: Array, null: NullModel, *, free: bool = True) -> Maximum:
    """Maxima of the penalized likelihood where they are found soon and are the only ones, else NaN; arguments are those of `firth`."""
    xp = null.xp
    found, rows = Maximum.unknown(null, len(centred)), xp.arange(len(centred))
    signed, point, before = centred * null.signs, score_start(centred, null.penalized_start), xp.ones(len(centred))
    if not free:
        point[:] = xp.append(null.penalized_start.coefficients, 0.0)
    step = xp.zeros_like(point)
    move, slope = step, step
    for _ in range(_FIRTH_STEPS):
        terms = penalized_terms(signed, mask, null, point, valued=False)
        last, (step, gradient) = step, _fisher_step(terms, free=free)
        gain = (gradient * step).sum(axis=1)
        stay = terms.regular & (gain < _SHRINKING * before) & (terms.largest < 2 * _ONE_MAXIMUM)
        # Fisher's information leaves out the second derivatives of the penalty; what the last step left tells their share (a secant).
        turn = step - last
        share = (turn * gradient).sum(axis=1) / xp.maximum((turn * (gradient - slope)).sum(axis=1), 1e-300)
        share = xp.where(before < 1, xp.clip(share, -0.5, 0.5), 0.0)[:, None]
        move = step - share * (move + turn)
        close = stay & (gain < _CLOSE) & (gain * xp.maximum(gain / before, _SLOWEST) < CONVERGED)
        done = xp.nonzero(close & (terms.largest < _ONE_MAXIMUM))[0]
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
