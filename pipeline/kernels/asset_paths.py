"""Prices of assets at a horizon, path by path: geometric Brownian motion, Heston's model, and what ties assets together.

A path's numbers depend on its own number and the seed alone (kernels/philox). Geometric Brownian motion is exact, in one step. Heston's
model (1993, Rev Financ Stud 6:327-343) goes in steps by full truncation, of Euler's schemes the one with the least bias (Lord, Koekkoek &
van Dijk 2010, Quant Finance 10:177-194).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.philox import normals_of
from pipeline.kernels.student_copula import chi_square, normal_of_student

Array = Any
Terms = tuple[float, float, float, float, float, float, float]
PRICES, VARIANCES = 0, 1  # streams of random numbers


class Heston(NamedTuple):
    """How a variance (a year's) moves: back to `long_variance` at `mean_reversion` a year, with a volatility of its own.

    `correlation` is that of its moves with the price's.
    """

    mean_reversion: float
    long_variance: float
    volatility_of_variance: float
    correlation: float


class Asset(NamedTuple):
    """Its price now, how it grows (the mean price after t years is spot exp(drift t)), its volatility now, a year's; and how that moves."""

    spot: float
    drift: float
    volatility: float
    heston: Heston | None = None

    def terms(self, years: float) -> Terms:
        """Of a step of so many years in Heston's model: growth, years, the pull back and to what, the spread, and its two sources."""
        heston = self.heston
        assert heston is not None
        apart = math.sqrt(max(1 - heston.correlation**2, 0.0))
        back = heston.mean_reversion * years
        return self.drift * years, years, back, heston.long_variance, heston.volatility_of_variance, heston.correlation, apart


@dataclass(frozen=True)
class Market:
    """Assets, and the lower triangle `float64[a, a]` whose product with its transpose is the correlation of their moves.

    `degrees` are those of a Student t copula, None of a Gaussian one; a t copula ties moves over the whole horizon, so no variance may move
    beside it. `years` is the horizon, in so many `steps` where a variance moves.
    """

    assets: tuple[Asset, ...]
    loadings: Array
    years: float
    steps: int
    degrees: int | None
    key: tuple[int, int]

    @cached_property
    def movers(self) -> list[int]:
        """The assets whose variances move."""
        return [at for at, asset in enumerate(self.assets) if asset.heston]


def log_prices(paths: Array, market: Market) -> list[Array]:
    """Of each asset the logarithms of its prices at the horizon, `float64[n]` of paths `uint64[n]`."""
    xp = array_module(paths)
    steps = market.steps if market.movers else 1
    years = market.years / steps
    variances = {at: xp.full(len(paths), market.assets[at].volatility ** 2) for at in market.movers}
    found = [xp.full(len(paths), math.log(asset.spot)) for asset in market.assets]
    for step in range(steps):
        moves = correlated(paths, step, market)
        for at, asset in enumerate(market.assets):
            if asset.heston is None:
                found[at] += (asset.drift - asset.volatility**2 / 2) * years + asset.volatility * math.sqrt(years) * moves[at]
        own = normals_of(paths, len(market.movers), step, VARIANCES, market.key)
        for at, normal in zip(market.movers, own, strict=True):
            step_variance(found[at], variances[at], moves[at], normal, market.assets[at].terms(years))
    return found


def correlated(paths: Array, step: int, market: Market) -> Array:
    """Of each asset the standard normal numbers of a step, tied together by the market's copula: `float64[a, n]`."""
    xp = array_module(paths)
    found = tied(normals_of(paths, len(market.assets), step, PRICES, market.key), market.loadings)
    if market.degrees is None:
        return found
    factor = xp.sqrt(market.degrees / chi_square(paths, market.degrees, market.key))
    return normal_of_student(found * factor, market.degrees)


def tied(normals: Array, loadings: Array) -> Array:
    """The sums of normal numbers `float64[a, n]` that the lower triangle `loadings: float64[a, a]` gives.

    Added up asset by asset: a matrix product would round a path by where it stands in its block.
    """
    xp = array_module(normals)
    found = xp.empty_like(normals)
    if xp is np:
        from pipeline.kernels.compiled.asset_paths import tie

        tie(normals, loadings, found)
        return found
    for at, row in enumerate(loadings.tolist()):
        found[at] = normals[0] * row[0]
        for other in range(1, at + 1):
            found[at] += normals[other] * row[other]
    return found


def step_variance(logs: Array, variances: Array, move: Array, normal: Array, terms: Terms) -> None:
    """Move logarithms of prices and their variances by a step of Heston's model, in place; all `float64[n]`."""
    if array_module(logs) is np:
        from pipeline.kernels.compiled import asset_paths

        asset_paths.step_variance(logs, variances, move, normal, terms)
    else:
        step_variance_plain(logs, variances, move, normal, terms)


def step_variance_plain(logs: Array, variances: Array, move: Array, normal: Array, terms: Terms) -> None:
    """As `step_variance`, all paths at once."""
    growth, years, back, level, spread, along, apart = terms
    xp = array_module(logs)
    held = xp.maximum(variances, 0.0)
    root = xp.sqrt(held * years)
    logs += growth - held * (years * 0.5) + root * move
    variances += back * (level - held) + spread * root * (along * move + apart * normal)
