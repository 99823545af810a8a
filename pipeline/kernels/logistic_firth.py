"""The maximum of Firth's penalized likelihood for many variants side by side, with the genotype's effect free or held at none.

Steps are Newton's on the penalized likelihood; as long as Fisher's information serves as well, which costs a third, it stands in for the
second derivatives, as it does where these are not those of a maximum. A step that lowers the likelihood is halved. The likelihood can have
two maxima, so the climb starts from the null model's fit and from zero, and the higher of the two counts; with an offset it can have four,
and the climb starts from the maximum with the effect held (or free, where it is to be held) as well.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_null import CONVERGED, NullModel
from pipeline.kernels.logistic_penalty import PenalizedTerms, curvature, penalized_terms, penalized_value
from pipeline.kernels.logistic_terms import Maximum, solve

MOST_FIRTH_STEPS = 100
_LARGEST_STEP = 3.0
_SLOW = 0.1
_ROUNDING = 1e-11
_DEFINITE = 1e-9
_OFF = 0.1
_NEAR = 0.01  # in squares of standard errors


def firth(centred: Array, mask: Array, null: NullModel, *, free: bool = True) -> Maximum:
    """The highest of the maxima that are reached from the starts that are named above; without `free` beta is held at 0.

    `centred: float64[v, n]` are genotypes, 0 where missing, as is `mask: float64[v, n]`, else 1.
    """
    xp, columns = null.xp, len(null.basis)
    nowhere = Maximum.unknown(null, len(centred)).point
    start = xp.zeros_like(nowhere)
    start[:, :columns] = null.coefficients
    best, height = _climbed(centred, mask, null, start, nowhere, free=free)
    starts = [xp.zeros_like(nowhere)]
    if null.offset is not None:
        beside, _ = _climbed(centred, mask, null, start, nowhere, free=not free)
        beside.point[:, columns] = 0
        starts.append(xp.where(xp.isnan(beside.point), 0, beside.point))
    for one in starts:
        other, above = _climbed(centred, mask, null, one, best.point, free=free)
        higher = (above > height + _ROUNDING * (1 + abs(height))) | xp.isnan(height)
        height = xp.where(higher, above, height)
        best = Maximum(xp.where(higher[:, None], other.point, best.point), xp.where(higher, other.standard_error, best.standard_error))
    return best


def likelihood_ratio(centred: Array, mask: Array, null: NullModel, found: Maximum, none: Maximum) -> Array:
    """Roots of the penalized likelihood ratios, `float64[v]`, with the sign of beta: standard normal where there is no effect.

    The genotype stays in the penalty where its effect is held at none (Heinze & Schemper 2002). `found` is the maximum with the effect
    free, `none` that without. NaN where there is no maximum.
    """
    xp = null.xp
    signed = centred * null.signs
    ratio = penalized_value(signed, mask, null, found.point) - penalized_value(signed, mask, null, none.point)
    return xp.sign(found.beta) * xp.sqrt(xp.maximum(2 * ratio, 0.0))


@dataclass(frozen=True)
class _Move:
    """The next step of v climbs."""

    step: Array
    """`float64[v, k + 1]`."""
    gain: Array
    """`float64[v]`: what it promises."""
    slow: Array
    """`bool[v]`: Fisher's information does not serve."""
    last: Array
    """`bool[v]`: a maximum is reached with it."""


@dataclass
class _Climb:
    """Where the climbs of v variants stand: the point taken last, its value, and the step to try from it."""

    variant: Array
    """`int64[v]`: their places."""
    signed: Array
    """`float64[v, n]`: centred genotypes times the signs."""
    mask: Array
    """`float64[v, n]`."""
    largest: Array
    """`float64[v]`: the largest step of the genotype's coefficient."""
    known: Array
    """`float64[v, k + 1]`: a maximum that is known, or NaN; a climb that comes near it ends."""
    taken: Array
    """`float64[v, k + 1]`."""
    value: Array
    """`float64[v]`."""
    step: Array
    """`float64[v, k + 1]`."""
    gain: Array
    """`float64[v]`: what the step was to bring."""
    slow: Array
    """`bool[v]`: Fisher's information does not serve."""

    def kept(self, stay: Array) -> _Climb:
        """Some of the variants."""
        if bool(stay.all()):
            return self
        return _Climb(*(getattr(self, field.name)[stay] for field in fields(self)))

    def advanced(self, tried: Array, terms: PenalizedTerms, up: Array, move: _Move) -> _Climb:
        """From the point tried by the next step where that led `up`, else half of the step once more."""
        xp = array_module(tried)
        ahead = xp.minimum(1.0, self.largest / xp.maximum(abs(move.step[:, -1]), 1e-100))
        return replace(
            self,
            taken=xp.where(up[:, None], tried, self.taken),
            value=xp.where(up, terms.value, self.value),
            step=xp.where(up[:, None], ahead[:, None] * move.step, 0.5 * self.step),
            gain=xp.where(up, move.gain, self.gain),
            slow=self.slow | move.slow,
        )


def _climbed(centred: Array, mask: Array, null: NullModel, start: Array, known: Array, *, free: bool) -> tuple[Maximum, Array]:
    """The maxima reached from `start`, and their heights; a variant is left as soon as it has one, or comes near that which is known."""
    xp, count = null.xp, len(centred)
    found, height = Maximum.unknown(null, count), xp.full(count, xp.nan)
    largest = _LARGEST_STEP / xp.maximum(abs(centred).max(axis=1), 1e-100)
    lowest, highest = xp.full(count, -xp.inf), xp.full(count, xp.inf)
    signed, never = centred * null.signs, xp.zeros(count, bool)
    climb = _Climb(xp.arange(count), signed, mask, largest, known, start, lowest, xp.zeros_like(start), highest, never)
    for _ in range(MOST_FIRTH_STEPS):
        if not len(climb.variant):
            break
        tried = climb.taken + climb.step
        terms = penalized_terms(climb.signed, climb.mask, null, tried)
        up = terms.value >= climb.value - _ROUNDING * (1 + abs(terms.value))
        move = _next_step(climb, null, terms, up, tried.shape[1] - (not free))
        done = move.last
        at = climb.variant[done]
        found.point[at], height[at] = (tried + move.step)[done], terms.value[done]
        found.standard_error[at] = terms.inverse[done, -1, -1] ** 0.5
        apart = (tried - climb.known)[:, :, None]
        near = (apart * (terms.information @ apart)).sum(axis=(1, 2)) < _NEAR
        climb = climb.advanced(tried, terms, up, move).kept(~done & ~near)
    return found, height


def _next_step(climb: _Climb, null: NullModel, terms: PenalizedTerms, up: Array, size: int) -> _Move:
    """From where the last step led `up`, for the first `size` coefficients; from a saddle, a tenth of a standard error off it."""
    xp = null.xp
    gradient = terms.gradient[:, :size, None]
    step = solve(terms.information[:, :size, :size], gradient).solution
    gain = (gradient * step).sum(axis=(1, 2))
    slow = up & (climb.slow | (gain > _SLOW * climb.gain))
    saddle = xp.zeros(len(gain), bool)
    rows = xp.nonzero(slow | up & (gain < CONVERGED))[0]
    if len(rows):
        curved = solve(curvature(climb.signed, null, terms, rows)[:, :size, :size], gradient[rows])
        peak = curved.least > _DEFINITE
        step[rows[peak]] = curved.solution[peak]
        gain[rows] = (gradient[rows] * step[rows]).sum(axis=(1, 2))
        saddle[rows[~peak]] = gain[rows[~peak]] < CONVERGED
        step[saddle, -1, 0] += _OFF * terms.inverse[saddle, size - 1, size - 1] ** 0.5
    whole = xp.zeros_like(terms.gradient)
    whole[:, :size] = step[:, :, 0]
    return _Move(whole, gain, slow, up & ~saddle & (gain < CONVERGED))
