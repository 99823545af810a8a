"""An exact linear mixed model of a trait, y = X b + g beta + u + e with u ~ N(0, a K) and e ~ N(0, I), for every variant g of a block.

Zhou & Stephens 2012 (Nature Genetics 44:821), Lippert et al. 2011 (Nature Methods 8:833). With K = U S U' everything is rotated by U' once,
and people are independent with variances 1 + a s up to a factor. The ratio a of the variances maximizes the likelihood of each variant's
model, or the restricted one; with the triangle L L' of [X g y]' W [X g y], W = 1 / (1 + a s), the last of its diagonal squared is y'Py, the
product of the others' squares is |A'WA| of A = [X g], and beta is the quotient of two of its last rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pipeline.backend.arrays import array_module, checked_linalg
from pipeline.errors import DataError

Array = Any

_DECADES, _CLOSE, _STEPS = 5, 1e-9, 60
"""The ratio lies within 1e-5 and 1e5; its logarithm is found as closely as this, in so many steps at most."""
_ALIKE = 1e-8
"""Of the mean diagonal: people whose relationships vary less are all alike."""


@dataclass(frozen=True)
class Rotated:
    """Relationships of n people taken apart, `K = vectors @ diag(values) @ vectors.T`, scaled so that their variance is 1."""

    vectors: Array
    """`float64[n, n]`."""
    values: Array
    """`float64[n]`, none below 0."""

    @classmethod
    def of(cls, relationships: Array) -> Rotated:
        """From `float64[n, n]`. Raises DataError where all people are related alike."""
        xp, n = array_module(relationships), len(relationships)
        diagonal = float(relationships.diagonal().mean())
        variance = diagonal - float(relationships.mean())  # mean diagonal of the centred matrix
        if not variance > _ALIKE * abs(diagonal):
            raise DataError(f"All {n} people are related alike, so nothing tells heredity from chance. Use more people or more variants.")
        with checked_linalg(xp):
            values, vectors = xp.linalg.eigh(relationships / variance)
        return cls(vectors, xp.maximum(values, 0.0))


class Profile(NamedTuple):
    """The likelihood of v models at a ratio each."""

    triangle: Array
    """`float64[v, k + 1, k + 1]`, lower: L of the weighted products of k columns and the trait."""
    likelihood: Array
    """`float64[v]`: its logarithm, up to a constant."""
    slope: Array
    """`float64[v]`: its derivative by the logarithm of the ratio."""


class MixedAssociation(NamedTuple):
    """What a block's variants and one trait have in common, `float64[v]` each."""

    beta: Array
    standard_error: Array
    statistic: Array
    """Student's t with n - k degrees of freedom, or (likelihood_ratio) the signed root of a chi-square."""


def profile(log_ratio: Array, values: Array, columns: Array, genotypes: Array | None, *, restricted: bool) -> Profile:
    """The likelihood at `log_ratio: float64[v]`, or `[1]` for all, of `columns: float64[n, c + 1]` (the last is the trait) and genotypes.

    `genotypes: float64[v, n]` are rotated as the columns are; None is the model of no variant. Raises LinAlgError where columns depend on
    each other.
    """
    xp, n = array_module(values), len(values)
    ratio = xp.exp(log_ratio)[:, None]
    weights = 1 / (1 + ratio * values)
    products = _products(weights, columns, genotypes)
    with checked_linalg(xp):
        triangle = xp.linalg.cholesky(products)
        inverse = xp.linalg.inv(triangle)
    bent = ((inverse @ _products(weights**2 * values, columns, genotypes)) * inverse).sum(axis=2)
    diagonal = xp.log(xp.diagonal(triangle, axis1=1, axis2=2))
    freedom = n - (products.shape[1] - 1 if restricted else 0)
    likelihood = xp.log(weights).sum(axis=1) / 2 - freedom * diagonal[:, -1]
    slope = freedom * bent[:, -1] - (weights * values).sum(axis=1)
    if restricted:
        likelihood, slope = likelihood - diagonal[:, :-1].sum(axis=1), slope + bent[:, :-1].sum(axis=1)
    return Profile(triangle, likelihood, slope * ratio[:, 0] / 2)


def _products(weights: Array, columns: Array, genotypes: Array | None) -> Array:
    """Weighted products of columns, genotype (before the last) and trait, `float64[v, k + 1, k + 1]`."""
    xp, width = array_module(columns), columns.shape[1]
    fixed = (weights @ (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), -1)).reshape(-1, width, width)
    if genotypes is None:
        return fixed
    shared = len(weights) == 1
    found = xp.empty((len(genotypes), width + 1, width + 1))
    places = xp.asarray([*range(width - 1), width])
    found[:, places[:, None], places] = fixed
    beside = genotypes @ (weights[0][:, None] * columns) if shared else (weights * genotypes) @ columns
    found[:, width - 1, places] = found[:, places, width - 1] = beside
    found[:, width - 1, width - 1] = genotypes**2 @ weights[0] if shared else (weights * genotypes**2).sum(axis=1)
    return found


def best_log_ratio(values: Array, columns: Array, genotypes: Array | None, *, restricted: bool) -> Array:
    """The logarithm of the ratio of greatest likelihood for each model, `float64[v]`.

    The slope's root beside the best of eleven, and those of all other tops, of which the greatest counts: where relationships are centred,
    the likelihood grows for ever with the ratio, so the last of eleven may be above all others and below the top between two of them.
    """
    xp, count = array_module(values), 1 if genotypes is None else len(genotypes)

    def at(log_ratio: Array, some: Any = slice(None)) -> Profile:
        """The profile of some models."""
        return profile(log_ratio, values, columns, None if genotypes is None else genotypes[some], restricted=restricted)

    grid = math.log(10) * xp.arange(-_DECADES, _DECADES + 1, dtype=xp.float64)
    found = [at(grid[i : i + 1])[1:] for i in range(len(grid))]
    likelihood, slope = (xp.stack(list(part)) for part in zip(*found, strict=True))
    best, model = likelihood.argmax(axis=0), xp.arange(count)
    rising = slope[best, model] > 0
    low, high = xp.where(rising, best, xp.maximum(best - 1, 0)), xp.where(rising, xp.minimum(best + 1, len(grid) - 1), best)
    # The likelihood is greatest between: a slope of the wrong sign at the far end belongs to another, lesser top.
    slopes = xp.abs(slope[low, model]), -xp.abs(slope[high, model])
    root = _root(lambda log_ratio: at(log_ratio).slope, (grid[low], grid[high]), slopes)
    tops = (slope[:-1] > 0) & (slope[1:] <= 0)
    tops[xp.minimum(low, len(tops) - 1), model] &= low == high  # of the others the first is known
    while bool(tops.any()):
        some = xp.flatnonzero(tops.any(axis=0))
        place = tops[:, some].argmax(axis=0)
        tops[place, some] = False
        ends = (grid[place], grid[place + 1]), (slope[place, some], slope[place + 1, some])
        other = _root(partial(_slope, at, some), *ends)
        better = at(other, some).likelihood > at(root[some], some).likelihood
        root[some] = xp.where(better, other, root[some])
    return root


def _slope(at: Callable[[Array, Array], Profile], some: Array, log_ratio: Array) -> Array:
    """Of some models."""
    return at(log_ratio, some).slope


def _root(slope: Callable[[Array], Array], ends: tuple[Array, Array], slopes: tuple[Array, Array]) -> Array:
    """Where slopes that are above 0 at the low end and below it at the high one cross it, by false position (Illinois)."""
    (low, high), (above, below), side = ends, slopes, 0 * ends[0]
    xp = array_module(low)
    at = low
    for _ in range(_STEPS):
        before, gap = at, above - below
        at = xp.where(gap > 0, (high * above - low * below) / xp.where(gap > 0, gap, 1.0), low)
        at = xp.minimum(xp.maximum(at, low), high)
        here = slope(at)
        up = here > 0
        below = xp.where(up, xp.where(side > 0, below / 2, below), here)
        above = xp.where(up, here, xp.where(side < 0, above / 2, above))
        low, high, side = xp.where(up, at, low), xp.where(up, high, at), xp.where(up, 1.0, -1.0)
        if bool((xp.abs(at - before) <= _CLOSE).all()):
            break
    return at


def mixed_association(values: Array, columns: Array, genotypes: Array, method: str, null_log_ratio: Array) -> MixedAssociation:
    """Effects of rotated `genotypes: float64[v, n]` on the last of rotated `columns: float64[n, c + 1]`.

    `method`: wald (the restricted likelihood's ratio for each variant), likelihood_ratio (the likelihood's), or at `null_log_ratio:
    float64[1]`, that of the model of no variant, score (of the likelihood) and emmax (of the restricted one; Kang et al. 2010).
    """
    xp, n, k = array_module(values), len(values), columns.shape[1]
    restricted = method in {"wald", "emmax"}
    own = method in {"wald", "likelihood_ratio"}
    log_ratio = best_log_ratio(values, columns, genotypes, restricted=restricted) if own else null_log_ratio
    fit = profile(log_ratio, values, columns, genotypes, restricted=restricted)
    across, itself, left = (fit.triangle[:, row, column] for row, column in ((-1, -2), (-2, -2), (-1, -1)))
    beta, error = across / itself, left / itself / math.sqrt(n - k)
    statistic = beta / error
    if method == "score":
        statistic = math.sqrt(n) * across / xp.hypot(across, left)
    elif method == "likelihood_ratio":
        null = profile(null_log_ratio, values, columns, None, restricted=False).likelihood
        statistic = xp.sign(beta) * xp.sqrt(2 * xp.maximum(fit.likelihood - null, 0.0))
    return MixedAssociation(beta, error, statistic)


def heritability(values: Array, columns: Array) -> tuple[float, float, float]:
    """The share of the trait's variance that relationships explain, its standard error, and the residual variance, without a variant.

    By restricted maximum likelihood; the error by the likelihood's curvature, NaN where the ratio is at an end of its range.
    """
    n, step = len(values), 1e-4
    best = best_log_ratio(values, columns, None, restricted=True)
    around = [profile(best + move, values, columns, None, restricted=True) for move in (-step, 0.0, step)]
    curvature = float(around[0].slope[0] - around[2].slope[0]) / (2 * step)
    ratio = math.exp(float(best[0]))
    inside = abs(float(best[0])) < _DECADES * math.log(10) - 1e-6 and curvature > 0
    share = ratio / (1 + ratio)
    error = share * (1 - share) / math.sqrt(curvature) if inside else math.nan
    residual = float(around[1].triangle[0, -1, -1]) ** 2 / (n - columns.shape[1] + 1)
    return share, error, residual
