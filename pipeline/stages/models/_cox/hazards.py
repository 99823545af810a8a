"""Proportional hazards on arrays: statsmodels' partial likelihood brought to its maximum, and the hazard of a row of mean features.

Cox 1972, J R Stat Soc B 34:187-220; Efron 1977, J Am Stat Assoc 72:557-565.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from pipeline.errors import DataError

Array = Any
Ties = Literal["efron", "breslow"]
ENOUGH, HALVINGS = 1e-9, 30
"""A step in standard errors that ends the rounds; how often a step is halved that does not go up."""
FLAT = 1e-10  # the share of a spread, or of a curve, below which there is none


class Lives(NamedTuple):
    """Of every row how long it lasted `float64[n]`, whether it ended with an event `bool[n]`, when it entered, its stratum `int64[n]`.

    A row is there after its entry, up to its duration.
    """

    duration: Array
    event: Array
    entry: Array | None
    stratum: Array


@dataclass(frozen=True)
class Hazards:
    """Coefficients `float64[d]` of features and their covariance, means and standard deviations, and log likelihoods with and without."""

    coefficients: Array
    covariance: Array
    means: Array
    deviations: Array
    log_likelihood: float
    null_log_likelihood: float
    rounds: int


def fitted(points: Array, lives: Lives, names: list[str], ties: Ties, rounds: tuple[int, Callable[[int, float], None]]) -> Hazards:
    """The maximum for `points float64[n, d]`; `rounds` are the most there may be, and who is told of each with its log likelihood.

    Raises DataError where features are constant or follow from one another, and where the likelihood has no maximum.
    """
    from statsmodels.duration.hazard_regression import PHReg

    means = points.mean(axis=0)
    spread = _spread(points, lives.stratum, names)
    scaled = (points - means) / spread
    entry = None if lives.entry is None else np.nextafter(lives.entry, np.inf)  # statsmodels has a row there at its entry, too
    model = PHReg(lives.duration, scaled, status=lives.event.astype(int), entry=entry, strata=lives.stratum, ties=ties)
    at, (most, tell) = np.zeros(len(names)), rounds
    null = height = float(model.loglike(at))
    first = np.zeros(0)
    for number in range(1, most + 1):
        slope, curve = np.asarray(model.score(at)), -np.asarray(model.hessian(at))
        first = curve if number == 1 else first
        step = _solved(curve, slope)
        if step is None or _is_flat(curve, first):
            break
        if float(np.sqrt(max(slope @ step, 0.0))) <= ENOUGH:
            by = np.outer(spread, spread)
            return Hazards(at / spread, np.linalg.inv(curve) / by, means, points.std(axis=0), height, null, number)
        for _ in range(HALVINGS):
            after = float(model.loglike(at + step))
            if np.isfinite(after) and after >= height - 1e-12 * abs(height):
                break
            step = step / 2
        at, height = at + step, after
        tell(number, height)
    largest = names[int(np.abs(at).argmax())]
    raise DataError(
        f"the likelihood has no maximum that {most} rounds reach. Does {largest!r}, whose coefficient grew most, tell all rows with an "
        "event from the others? Leave it out by exclude."
    )


def _solved(curve: Array, slope: Array) -> Array | None:
    """The step of Newton's method; None where the curve is flat."""
    try:
        return np.linalg.solve(curve, slope)
    except np.linalg.LinAlgError:
        return None


def _is_flat(curve: Array, first: Array) -> bool:
    """Whether in some direction next to nothing is left of the curve that there was before the first round."""
    from scipy.linalg import eigvalsh

    return bool(eigvalsh(curve, first)[0] < FLAT)


def _spread(points: Array, stratum: Array, names: list[str]) -> Array:
    """The standard deviation of every feature within strata. Raises DataError for a constant one, and for one that follows from others."""
    groups = np.unique(stratum, return_inverse=True)[1]
    sizes = np.bincount(groups)
    centred = np.column_stack([column - (np.bincount(groups, column) / sizes)[groups] for column in points.T])
    spread = np.sqrt((centred**2).mean(axis=0))
    flat = spread <= FLAT * np.abs(points).max(axis=0)
    if flat.any():
        where = " within every stratum" if len(sizes) > 1 else ""
        raise DataError(f"feature {names[int(flat.argmax())]!r} is constant{where} in the rows to learn from. Leave it out by exclude.")
    triangle = np.linalg.qr(centred / spread, mode="r") / np.sqrt(len(points))
    follows = np.flatnonzero(np.abs(np.diagonal(triangle)) < FLAT**0.5)
    if len(follows) or len(points) < len(names):
        name = names[int(follows[0]) if len(follows) else len(points)]
        raise DataError(f"feature {name!r} follows from those before it (its rows are a sum of theirs). Leave it out by exclude.")
    return spread


class Baseline(NamedTuple):
    """The hazard of a row of mean features: by stratum and time of an event, what has added up, `float64[t]`."""

    stratum: Array
    time: Array
    cumulative: Array


def baseline(lives: Lives, predictor: Array, ties: Ties) -> Baseline:
    """What Breslow's and Efron's estimators add up, of rows with a linear predictor `float64[n]`, as R's basehaz has them."""
    found = [(number, *_cumulative(lives, predictor, lives.stratum == number, ties)) for number in np.unique(lives.stratum)]
    strata = [np.full(len(times), number) for number, times, _ in found]
    return Baseline(*(np.concatenate(column) for column in (strata, [times for _, times, _ in found], [sums for *_, sums in found])))


def _cumulative(lives: Lives, predictor: Array, rows: Array, ties: Ties) -> tuple[Array, Array]:
    """Times of events and the cumulative hazard of one stratum."""
    duration, event, hazard = lives.duration[rows], lives.event[rows], np.exp(predictor[rows])
    times, which, deaths = np.unique(duration[event], return_inverse=True, return_counts=True)
    at_risk = _from(times, duration, hazard, "left")
    if lives.entry is not None:
        at_risk = at_risk - _from(times, lives.entry[rows], hazard, "left")
    dying = np.bincount(which, hazard[event], minlength=len(times))
    if ties == "breslow":
        return times, np.cumsum(deaths / at_risk)
    number = np.arange(deaths.sum()) - np.repeat(np.cumsum(deaths) - deaths, deaths)  # of a death among those of its time
    left = np.repeat(at_risk, deaths) - number / np.repeat(deaths, deaths) * np.repeat(dying, deaths)
    return times, np.cumsum(np.bincount(np.repeat(np.arange(len(times)), deaths), 1 / left, minlength=len(times)))


def _from(times: Array, ends: Array, weights: Array, side: Literal["left", "right"]) -> Array:
    """The sum of the weights of those that end at each time or later."""
    order = np.argsort(ends, kind="stable")
    later = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    found: Array = later[np.searchsorted(ends[order], times, side)]
    return found
