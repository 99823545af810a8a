"""Regressions of single variants computed again, the slow way: QR or Newton's method on people's own rows, in float64, by NumPy and SciPy.

Nothing here is shared with the kernels that scan (products, tables of bytes, shared bases), so that a fault of theirs shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.roots import falling_root

Numbers = NDArray[np.float64]

_STEPS = 60
_STILL = 1e-12
_TIED = 1e-7  # of a column's length: less than that is left of it by the others, and the last digits say little
_RARE = 50  # copies of an allele below which the one effect is that of its carriers
_LARGE = 12.0  # log odds ratios beyond this are of separated data, whose maximum is not finite


@dataclass(frozen=True)
class Again:
    """The effect of one variant: `beta`, its standard error, and the people it is of; NaN where this way gives none."""

    beta: float
    standard_error: float
    n: int


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
    known = ~np.isnan(covariates).any(axis=1)
    values, called = residual[known], ~np.isnan(genotype[known])
    people = len(values)
    if not called.any() or np.isnan(values).any():
        return Again(np.nan, np.nan, int(called.sum()))
    filled = np.where(called, genotype[known], genotype[known][called].mean())
    columns = np.column_stack([np.ones(people), covariates[known][:, np.ptp(covariates[known], axis=0) > 0]])
    left = filled - columns @ np.linalg.lstsq(columns, filled, rcond=None)[0]
    size = float(left @ left)
    if size <= _TIED * float(((filled - filled.mean()) ** 2).sum()):
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
        return _at_maximum(genotype, covariates, (called, values, len(values)), 0.0, firth=test.startswith("firth"))
    columns = _columns(genotype, covariates, called)
    if _tied(_triangle(columns), columns.shape[1]) or (known & ~called).any():
        return nothing
    return _score(columns, values)


def _at_maximum(
    genotype: Numbers, covariates: Numbers, of: tuple[NDArray[np.bool_], Numbers, int], offset: Numbers | float, *, firth: bool
) -> Again:
    """The effect where the (penalized) likelihood is greatest; `of` are the people, their trait, and how many are called."""
    people, values, n = of
    columns = _columns(genotype, covariates, people)
    tied = _tied(_triangle(columns), columns.shape[1])
    point = None if tied else _climbed(columns, values, offset, firth=firth)
    if point is None:
        return Again(np.nan, np.nan, n)
    inverse = np.linalg.inv(_information(columns, _chances(columns, point, offset)))
    return Again(float(point[-1]), float(np.sqrt(inverse[-1, -1])), n)


def offset_again(genotype: Numbers, covariates: Numbers, case: Numbers, log_odds: tuple[Numbers, Numbers], test: str) -> Again:
    """The effect on a trait of 0 and 1 with fixed log odds, by maximum likelihood and by Firth's fit, by the test that a row carries.

    score: one step; firth_approximate: where the penalized likelihood of the one effect is greatest; spa: the score test's deviate by the
    saddle point, times its standard error; wald and firth_lrt: as `logistic_again`, about the first log odds. Roots are Brent's. A missing
    genotype is the mean of those with all covariates.
    """
    used = ~np.isnan(covariates).any(axis=1)
    own, called = used & ~np.isnan(case), used & ~np.isnan(genotype)
    n = int((own & called).sum())
    if not called.any():
        return Again(np.nan, np.nan, n)
    copies = genotype[own & called].sum()
    sign, rarer = (-1, 2 - genotype) if copies > n else (1, genotype)
    filled = np.where(called, rarer, rarer[called].mean())[own]
    (null, firth), values = (odds[own] for odds in log_odds), case[own]
    if test in ("wald", "firth_lrt"):
        return _at_maximum(np.where(called, genotype, genotype[called].mean()), covariates, (own, values, n), null, firth=test != "wald")
    p = 1 / (1 + np.exp(-null))
    weights, varied = p * (1 - p), np.ptp(covariates[own], axis=0) > 0
    columns = np.column_stack([np.ones(len(values)), covariates[own][:, varied]])
    left = filled - columns @ np.linalg.lstsq(columns * np.sqrt(weights)[:, None], filled * np.sqrt(weights), rcond=None)[0]
    information, score = float(left**2 @ weights), float(left @ (values - p))
    if information <= _TIED * float((filled - filled.mean()) ** 2 @ weights):
        return Again(np.nan, np.nan, n)
    beta, error = score / information, information**-0.5
    if test == "spa":
        beta = _by_tails(left, p, (filled > 0) | ((filled > 0).sum() >= 0.5 * used.sum()), score) * error
    elif test != "score":
        beta, error = _by_slope(np.where((filled > 0) | (min(copies, 2 * n - copies) >= _RARE), left, 0), values, firth, (beta, error))
    return Again(float(sign * beta), error, n)


def _by_slope(left: Numbers, values: Numbers, log_odds: Numbers, near: tuple[float, float]) -> tuple[float, float]:
    """Where Firth's penalized likelihood of one effect is greatest, near an estimate, and its standard error."""

    def weights(beta: float) -> tuple[Numbers, Numbers]:
        """The probabilities, and their variances."""
        chance = np.asarray(1 / (1 + np.exp(-(log_odds + beta * left))), np.float64)
        return chance, chance * (1 - chance)

    def slope(beta: float) -> float:
        """Of the penalized likelihood."""
        chance, variance = weights(beta)
        return float(left @ (values - chance) + left @ (left**2 * variance * (1 - 2 * chance)) / (2 * left**2 @ variance))

    beta = falling_root(slope, near[0], 8 * near[1])
    return beta, float((left**2 @ weights(beta)[1]) ** -0.5)


def _by_tails(left: Numbers, p: Numbers, own: NDArray[np.bool_], score: float) -> float:
    """The normal deviate of both tails of a score together, with its sign."""
    from scipy.special import erfc, ndtri

    both = sum(float(erfc(abs(_deviate(left, p, own, size)) / np.sqrt(2))) for size in (abs(score), -abs(score))) / 2
    return float(np.sign(score) * -ndtri(both / 2))


def _deviate(left: Numbers, p: Numbers, own: NDArray[np.bool_], score: float) -> float:
    """The normal deviate of a score by the saddle point; who is not his `own` counts as normal."""
    numbers, chances = left[own], p[own]
    spread = float((left[~own] ** 2) @ (p[~own] * (1 - p[~own])))
    variance = float((left**2) @ (p * (1 - p)))

    def moved(t: float) -> Numbers:
        """The probabilities there."""
        return np.asarray(1 / (1 + (1 - chances) / chances * np.exp(-numbers * t)), np.float64)

    t = falling_root(lambda t: score - float(numbers @ (moved(t) - chances)) - t * spread, score / variance, 8 * variance**-0.5)
    cumulant = float(np.log1p(chances * np.expm1(numbers * t)).sum() - t * (numbers @ chances)) + t * t * spread / 2
    second = float((numbers**2) @ (moved(t) * (1 - moved(t)))) + spread
    w, v = np.sign(t) * np.sqrt(2 * (t * score - cumulant)), t * np.sqrt(second)
    return float(w + np.log(v / w) / w)


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
    return bool((diagonal <= _TIED * lengths).any())


def _score(columns: Numbers, values: Numbers) -> Again:
    point = _climbed(columns[:, :-1], values, 0.0, firth=False)
    if point is None:
        return Again(np.nan, np.nan, len(values))
    p = _chances(columns[:, :-1], point, 0.0)
    weighted = columns * np.sqrt(p * (1 - p))[:, None]
    left = weighted[:, -1] - weighted[:, :-1] @ np.linalg.lstsq(weighted[:, :-1], weighted[:, -1], rcond=None)[0]
    information = left @ left
    return Again(float(columns[:, -1] @ (values - p) / information), float(information**-0.5), len(values))


def _climbed(columns: Numbers, values: Numbers, offset: Numbers | float, *, firth: bool) -> Numbers | None:
    """Where the (penalized) likelihood is greatest, by Newton's method with halved steps; None where that is not found."""
    point = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        p = _chances(columns, point, offset)
        information = _information(columns, p)
        residual = values - p
        if firth:
            weighted = columns * np.sqrt(p * (1 - p))[:, None]
            residual = residual + ((weighted @ np.linalg.inv(information)) * weighted).sum(axis=1) * (0.5 - p)
        step = np.linalg.solve(information, columns.T @ residual)
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
