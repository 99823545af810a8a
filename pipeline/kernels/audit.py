"""Regressions of single variants computed again, the slow way: QR or Newton's method on people's own rows, in float64, by NumPy and SciPy.

Nothing here is shared with the kernels that scan (products, tables of bytes, shared bases), so that a fault of theirs shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_STEPS = 300
_STILL = 1e-12
TIED = 1e-7
"""Of a column's length: where less is left of it by the others, its last digits say little."""
_LARGE = 12.0  # log odds ratios beyond this are of separated data, whose maximum is not finite


class Genotype(NamedTuple):
    """One variant of n people: what each counts by the coding, and copies of ALT, `[n]` each, NaN where missing."""

    counted: Numbers
    copies: Numbers


@dataclass(frozen=True)
class Again:
    """The effect of one variant: `beta`, its standard error, and the people it is of; NaN where this way gives none.

    `others` are further maxima of the same likelihood, one of which may be what is audited.
    """

    beta: float
    standard_error: float
    n: int
    others: tuple[Again, ...] = ()


def linear_again(genotype: Numbers, covariates: Numbers, trait: Numbers, *, mean: bool = False) -> Again:
    """Least squares of a trait `[n]` on intercept, `covariates: [n, c]` and the genotype, of the people who have all (NaN: missing).

    `mean` puts the genotype's mean where it is missing. Source: Golub and Van Loan, Matrix Computations, 5.3.
    """
    known = ~(np.isnan(covariates).any(axis=1) | np.isnan(trait))
    called = known & ~np.isnan(genotype)
    if mean and called.any():
        genotype, called = np.where(np.isnan(genotype), genotype[called].mean(), genotype), known
    people = int(called.sum())
    if people <= covariates.shape[1] + 2:
        return Again(np.nan, np.nan, people)
    triangle = _triangle(np.column_stack([np.ones(people), covariates[called], genotype[called], trait[called]]))
    width = covariates.shape[1] + 2
    if _tied(triangle, width):
        return Again(np.nan, np.nan, people)
    last = triangle[width - 1, width - 1]
    error = abs(triangle[width, width] / last) / np.sqrt(people - width)
    return Again(float(triangle[width - 1, width] / last), float(error), people)


def projected_again(genotype: Numbers, covariates: Numbers, residual: Numbers, *, fitted: bool = False) -> Again:
    """The effect of a genotype, less what intercept and covariates explain of it, on what a model left of a trait `[n]`.

    The standard error is that of the residual with no effect, or with the `fitted` one. A missing genotype is the mean of those with all
    covariates; NaN where one of these has no residual, whose approximation is not computed again.
    """
    rows = np.ascontiguousarray(covariates.T)
    known = ~np.isnan(rows).any(axis=0)
    values, counted, some = residual[known], genotype[known], np.compress(known, rows, axis=1)
    people, called = len(values), ~np.isnan(counted)
    if not called.any() or np.isnan(values).any():
        return Again(np.nan, np.nan, int(called.sum()))
    filled = np.where(called, counted, counted[called].mean())
    columns = np.column_stack([np.ones(people), *some[np.ptp(some, axis=1) > 0]])
    left = filled - columns @ np.linalg.lstsq(columns, filled, rcond=None)[0]
    size = float(left @ left)
    if size <= TIED * float(((filled - filled.mean()) ** 2).sum()):
        return Again(np.nan, np.nan, int(called.sum()))
    beta, freedom = float(left @ values / size), people - columns.shape[1] - fitted
    return Again(beta, float(np.sqrt((values @ values - fitted * beta**2 * size) / freedom / size)), int(called.sum()))


def logistic_again(genotype: Numbers, covariates: Numbers, trait: Numbers, test: str) -> Again:
    """The same of a trait of 0 and 1, by the test that a row carries: score (U / V at the fit without the genotype), wald or firth.

    Score: NaN where a call is missing, since the scan does not fit the covariates anew for each variant. Firth's standard error is that of
    the information at his estimate. Sources: Agresti, Categorical Data Analysis, 5.5; Heinze and Schemper 2002.
    """
    known = ~(np.isnan(covariates).any(axis=1) | np.isnan(trait))
    called = known & ~np.isnan(genotype)
    values = trait[called]
    nothing = Again(np.nan, np.nan, len(values))
    if len(values) <= covariates.shape[1] + 2:
        return nothing
    if test != "score":
        return at_maximum(genotype, covariates, (called, values, len(values)), 0.0, firth=test.startswith("firth"))
    columns = _columns(genotype, covariates, called)
    if _tied(_triangle(columns), columns.shape[1]) or (known & ~called).any():
        return nothing
    return _score(columns, values)


def at_maximum(
    genotype: Numbers, covariates: Numbers, of: tuple[NDArray[np.bool_], Numbers, int], offset: Numbers | float, *, firth: bool
) -> Again:
    """The effect where the (penalized) likelihood is greatest; `of` are the people, their trait, and how many are called.

    A penalized one can have several maxima: those that are reached with the covariates at no effect, at their own maximum, and about an
    offset at that with no effect, the highest first.
    """
    people, values, n = of
    columns = _columns(genotype, covariates, people)
    if _tied(_triangle(columns), columns.shape[1]):
        return Again(np.nan, np.nan, n)
    starts: list[Numbers | None] = [None]
    if firth:  # an offset may have the covariates' maximum in it
        without = columns[:, :-1]
        null = _climbed(without, values, 0.0) if np.ndim(offset) == 0 else -np.linalg.lstsq(without, offset, rcond=None)[0]
        starts += [] if null is None else [np.append(null, 0.0)]
    if firth and np.ndim(offset):
        starts.append(_climbed(columns, values, offset, starts[-1], firth=True, free=columns.shape[1] - 1))
    points = [found for start in starts if (found := _climbed(columns, values, offset, start, firth=firth)) is not None]
    if not points:
        return Again(np.nan, np.nan, n)
    points.sort(key=lambda found: -_penalized(columns, values, offset, found))
    inverses = [np.linalg.inv(_information(columns, _chances(columns, point, offset))) for point in points]
    first, *others = (Again(float(point[-1]), float(np.sqrt(own[-1, -1])), n) for point, own in zip(points, inverses, strict=True))
    return replace(first, others=tuple(others))


def _columns(genotype: Numbers, covariates: Numbers, people: NDArray[np.bool_]) -> Numbers:
    """Intercept, covariates about their means and in units of their spread, and the genotype, of some people."""
    some = covariates[people]
    spread = some.std(axis=0)
    varied = (some - some.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    return np.column_stack([np.ones(int(people.sum())), varied, genotype[people]])


def _triangle(columns: Numbers) -> Numbers:
    """R of the QR factorization."""
    return np.asarray(np.linalg.qr(columns, mode="r"), np.float64)


def _tied(triangle: Numbers, width: int) -> bool:
    """Whether some column is nearly a combination of those before it."""
    diagonal, lengths = np.abs(np.diagonal(triangle))[:width], np.linalg.norm(triangle[:, :width], axis=0)
    return bool((diagonal <= TIED * lengths).any())


def _score(columns: Numbers, values: Numbers) -> Again:
    point = _climbed(columns[:, :-1], values, 0.0)
    if point is None:
        return Again(np.nan, np.nan, len(values))
    p = _chances(columns[:, :-1], point, 0.0)
    weighted = columns * np.sqrt(p * (1 - p))[:, None]
    left = weighted[:, -1] - weighted[:, :-1] @ np.linalg.lstsq(weighted[:, :-1], weighted[:, -1], rcond=None)[0]
    information = left @ left
    return Again(float(columns[:, -1] @ (values - p) / information), float(information**-0.5), len(values))


def _penalized(columns: Numbers, values: Numbers, offset: Numbers | float, point: Numbers) -> float:
    """Firth's penalized log likelihood."""
    odds = offset + columns @ point
    information = _information(columns, _chances(columns, point, offset))
    return float(values @ odds - np.logaddexp(0, odds).sum() + np.linalg.slogdet(information)[1] / 2)


def _climbed(
    columns: Numbers,
    values: Numbers,
    offset: Numbers | float,
    start: Numbers | None = None,
    *,
    firth: bool = False,
    free: int = -1,
) -> Numbers | None:
    """Where the (penalized) likelihood is greatest, by Newton's method with shortened steps, of the first `free` coefficients (-1: all).

    None where that is not found.
    """
    free = columns.shape[1] if free < 0 else free
    point = np.zeros(columns.shape[1]) if start is None else start
    for _ in range(_STEPS):
        p = _chances(columns, point, offset)
        information = _information(columns, p)
        residual, step = values - p, np.zeros(len(point))
        try:
            if firth:
                weighted = columns * np.sqrt(p * (1 - p))[:, None]
                residual = residual + ((weighted @ np.linalg.inv(information)) * weighted).sum(axis=1) * (0.5 - p)
            step[:free] = np.linalg.solve(information[:free, :free], (columns.T @ residual)[:free])
        except np.linalg.LinAlgError:  # chances of 0 and 1: a covariate tells people, and log odds go on without end
            return None
        longest = float(np.abs(step).max())
        point = point + step / max(1.0, longest / 2)
        if not np.isfinite(point).all() or abs(point[-1]) > _LARGE:
            return None
        if longest < _STILL * (1 + float(np.abs(point).max())):
            return point
    return None


def _chances(columns: Numbers, point: Numbers, offset: Numbers | float) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-(offset + columns @ point))), np.float64)


def _information(columns: Numbers, p: Numbers) -> Numbers:
    return np.asarray(columns.T @ (columns * (p * (1 - p))[:, None]), np.float64)
