"""The maximum of the likelihood of a logistic regression for many variants side by side, and where there is none: separation.

A maximum is reached where Newton's step promises next to nothing and moves nobody's log odds. Where variant and covariates separate cases
from controls, the likelihood rises for ever: a step promises less and less and still moves somebody's log odds by about 1 (Albert &
Anderson 1984, Biometrika 71:1-10, on when a maximum exists), and such a variant has no estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_null import CONVERGED, MOST_STEPS, NullModel, Start
from pipeline.kernels.logistic_terms import Maximum, likelihood_terms, solve

LARGEST_STEP, LEAST_LEFT = 3.0, 1e-9
_OVERSHOT = -0.5
_SINGULAR = 1e-12
# A step that promises less than this and moves somebody's log odds by more moves people who all are what they are fitted to be: one of
# the others among them would have a share of one in the gradient.
_SETTLED, _MOVED = 1e-6, 0.1


@dataclass
class _Search:
    """Where Newton's method stands for v variants: the point taken last, the step to try from it, and the gain that step promised."""

    variant: Array
    """`int64[v]`: their places."""
    signed: Array
    """`float64[v, n]`: centred genotypes times the signs."""
    mask: Array
    """`float64[v, n]`."""
    largest: Array
    """`float64[v]`: the largest step of the genotype's coefficient."""
    taken: Array
    """`float64[v, k + 1]`."""
    step: Array
    """`float64[v, k + 1]`."""
    promised: Array
    """`float64[v]`."""

    def advanced(self, gradient: Array, newton: Array, gain: Array, overshot: Array) -> _Search:
        """From the point tried: Newton's step, or back where the slope along the step has turned too far."""
        xp = array_module(gradient)
        slope = (gradient * self.step).sum(axis=1)
        back = xp.clip(self.promised / xp.where(overshot, self.promised - slope, 1.0), 0.1, 0.5)
        ahead = xp.minimum(1.0, self.largest / xp.maximum(abs(newton[:, -1]), 1e-100))
        return replace(
            self,
            taken=xp.where(overshot[:, None], self.taken, self.taken + self.step),
            step=xp.where(overshot[:, None], back[:, None] * self.step, ahead[:, None] * newton),
            promised=xp.where(overshot, back * self.promised, ahead * gain),
        )

    def kept(self, stay: Array) -> _Search:
        """Some of the variants."""
        if bool(stay.all()):
            return self
        return _Search(*(getattr(self, field.name)[stay] for field in fields(self)))

    def moves(self, rows: Array, step: Array, null: NullModel) -> Array:
        """The most that a step moves anybody's log odds, `float64[r]`, for some of the variants; NaN for one that has no end."""
        step = step[rows]
        moved = step[:, :-1] @ null.signed + self.signed[rows] * step[:, -1:]
        return abs(moved * self.mask[rows]).max(axis=1)


def score_start(centred: Array, start: Start) -> Array:
    """One step of the score test from the model without a variant, as if no genotype were missing: `float64[v, k + 1]`."""
    xp = array_module(centred)
    products = centred @ start.directions.T
    score, products = products[:, -1], products[:, :-1]
    own = (centred**2) @ start.weights
    largest = _largest(centred)
    beta = xp.clip(score / xp.maximum(own - (products**2).sum(axis=1), LEAST_LEFT * own + 1e-100), -largest, largest)
    return xp.concatenate([start.coefficients - beta[:, None] * (products @ start.whitening), beta[:, None]], axis=1)


def wald(centred: Array, mask: Array, null: NullModel) -> Maximum:
    """The maxima, NaN where there is no finite one; a variant is left as soon as it has one.

    `centred: float64[v, n]` are genotypes, 0 where missing, as is `mask: float64[v, n]`, else 1.
    """
    xp = null.xp
    found = Maximum.unknown(null, len(centred))
    start, variants = score_start(centred, null.start), xp.arange(len(centred))
    search = _Search(variants, centred * null.signs, mask, _largest(centred), start, xp.zeros_like(start), xp.zeros(len(centred)))
    for _ in range(MOST_STEPS):
        if not len(search.variant):
            break
        tried = search.taken + search.step
        terms = likelihood_terms(search.signed, search.mask, null, tried)
        gradient = terms.gradient
        solved = solve(terms.information, gradient[:, :, None])
        step, regular = solved.solution[:, :, 0], solved.least > _SINGULAR
        gain = (gradient * step).sum(axis=1)
        overshot = (gradient * search.step).sum(axis=1) < _OVERSHOT * search.promised
        settled = xp.nonzero(regular & ~overshot & (gain < _SETTLED))[0]
        separated = xp.zeros(len(gain), bool)
        separated[settled] = ~(search.moves(settled, step, null) < _MOVED)
        done = regular & ~overshot & (gain < CONVERGED) & ~separated
        found.point[search.variant[done]] = (tried + step)[done]
        found.standard_error[search.variant[done]] = solved.last[done] ** -0.5
        search = search.advanced(gradient, step, gain, overshot).kept((regular | overshot) & ~done & ~separated)
    return found


def _largest(centred: Array) -> Array:
    """The largest step of each genotype's coefficient, `float64[v]`."""
    return LARGEST_STEP / array_module(centred).maximum(abs(centred).max(axis=1), 1e-100)
