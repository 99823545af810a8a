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

from pipeline.backend.arrays import array_module
from pipeline.kernels.philox import normal_pairs
from pipeline.kernels.student_copula import chi_square, normal_of_student

Array = Any
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
        own = _normals(paths, len(market.movers), step, VARIANCES, market.key)
        for at, normal in zip(market.movers, own, strict=True):
            found[at] += _stepped(variances, at, market.assets[at], (moves[at], normal, years))
    return found


def correlated(paths: Array, step: int, market: Market) -> list[Array]:
    """Of each asset the standard normal numbers of a step, tied together by the market's copula: `float64[n]` each."""
    xp = array_module(paths)
    normals = _normals(paths, len(market.assets), step, PRICES, market.key)
    found = []
    for at in range(len(normals)):
        total = normals[0] * market.loadings[at, 0]
        for other in range(1, at + 1):
            if market.loadings[at, other]:
                total += normals[other] * market.loadings[at, other]
        found.append(total)
    if market.degrees is None:
        return found
    factor = xp.sqrt(market.degrees / chi_square(paths, market.degrees, market.key))
    return [normal_of_student(total * factor, market.degrees) for total in found]


def _normals(paths: Array, count: int, step: int, stream: int, key: tuple[int, int]) -> list[Array]:
    pairs = (count + 1) // 2
    found = [normal for pair in range(pairs) for normal in normal_pairs(paths, step * pairs + pair, stream, key)]
    return found[:count]


def _stepped(variances: dict[int, Array], at: int, asset: Asset, by: tuple[Array, Array, float]) -> Array:
    """How an asset's logarithm moves in a step; its variance is the next one's afterwards."""
    assert asset.heston is not None
    xp, heston, (move, normal, years) = array_module(by[0]), asset.heston, by
    held = xp.maximum(variances[at], 0.0)
    spread = xp.sqrt(held * years)
    own = heston.correlation * move + math.sqrt(1 - heston.correlation**2) * normal
    variances[at] = (
        variances[at] + (heston.mean_reversion * years) * (heston.long_variance - held) + heston.volatility_of_variance * spread * own
    )
    return asset.drift * years - held * (years / 2) + spread * move
