"""Mixtures of Gaussians by expectation and maximization, as sums that blocks of rows add up to.

Dempster, Laird & Rubin 1977, J R Stat Soc B 39:1-38. Second moments are summed about the means of the round before, so that covariances
keep their digits. Covariances are `full float64[k, d, d]`, `diagonal float64[k, d]` or `tied float64[d, d]`, one for all components.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.distances import assigned, projected, row_blocks

Array = Any
Kind = Literal["full", "diagonal", "tied"]
_LITTLE = 10 * float(np.finfo(np.float64).eps)
"""Added to the weight of every component, as scikit-learn does: one that no row belongs to keeps finite moments."""


class Mixture(NamedTuple):
    """Weights `[k]`, means `[k, d]`, covariances, and factors of their inverses: (x - mean) times a factor has unit covariance."""

    weights: Array
    means: Array
    covariances: Array
    factors: Array

    @property
    def components(self) -> int:
        """How many."""
        return len(self.weights)


class MixtureSums(NamedTuple):
    """Of a block of rows: weight `[k]` of each component, first moments `[k, d]` and second ones about its mean, rows, log likelihood."""

    weight: Array
    first: Array
    second: Array
    rows: int
    log_likelihood: float


def log_densities(rows: Array, mixture: Mixture, kind: Kind, *, alone: bool = False) -> Array:
    """Logarithms of weight times density, `float64[n, k]`, of rows `[n, d]`; `alone`: the same for a row wherever it stands."""
    xp = array_module(rows)
    weights, means, _, factors = (xp.asarray(value) for value in mixture)
    found = xp.empty((len(means), len(rows)))  # sums over components run along the rows
    for number in range(len(means)):
        apart, factor = rows - means[number], factors if kind == "tied" else factors[number]
        if kind == "diagonal":
            apart, scale = apart * factor, xp.log(factor).sum()
        else:
            apart, scale = (projected(apart, factor) if alone else apart @ factor), xp.log(xp.diagonal(factor)).sum()
        squares = sum((apart[:, i] ** 2 for i in range(apart.shape[1])), start=xp.zeros(len(rows))) if alone else (apart**2).sum(axis=1)
        found[number] = xp.log(weights[number]) + scale - 0.5 * (squares + rows.shape[1] * np.log(2 * np.pi))
    return found.T


def posteriors(found: Array) -> tuple[Array, Array]:
    """Probability of each component `float64[n, k]` and log density `float64[n]`, from `log_densities`."""
    xp = array_module(found)
    most = found.max(axis=1)
    shares = xp.exp(found - most[:, None])
    total = shares[:, 0].copy()
    for number in range(1, shares.shape[1]):
        total += shares[:, number]
    return shares / total[:, None], most + xp.log(total)


def mixture_sums(rows: Array, mixture: Mixture, kind: Kind) -> MixtureSums:
    """The sums of a block of rows by what the mixture says of them."""
    means, total = array_module(rows).asarray(mixture.means), _nothing(rows.shape[1], mixture.components, kind)
    for at in row_blocks(rows, 2 * rows.shape[1] + mixture.components):
        shares, density = posteriors(log_densities(rows[at], mixture, kind))
        total = added([total, _weighted(rows[at], shares, means, kind, float(density.sum()))])
    return total


def nearest_sums(rows: Array, centers: Array, kind: Kind) -> MixtureSums:
    """The sums of a block of rows, each of which belongs to the component of the nearest center."""
    xp = array_module(rows)
    means, total = xp.asarray(centers), _nothing(rows.shape[1], len(centers), kind)
    for at in row_blocks(rows, 2 * rows.shape[1] + len(centers)):
        shares = (assigned(rows[at], means)[0][:, None] == xp.arange(len(means))).astype(np.float64)
        total = added([total, _weighted(rows[at], shares, means, kind, -np.inf)])
    return total


def added(found: Sequence[MixtureSums]) -> MixtureSums:
    """The sums over several blocks."""
    return MixtureSums(*(sum(values[1:], start=values[0]) for values in zip(*found, strict=True)))


def maximized(means: Array, total: MixtureSums, kind: Kind, floor: float) -> Mixture:
    """The mixture that the sums about `means` make likeliest; `floor` is added to every variance.

    Raises LinAlgError where a covariance cannot be inverted.
    """
    weight = total.weight + _LITTLE
    step = total.first / weight[:, None]
    if kind == "full":
        found = total.second / weight[:, None, None] - step[:, :, None] * step[:, None, :]
    elif kind == "tied":
        found = (total.second - (total.weight[:, None] * step).T @ step) / total.weight.sum()
    else:
        found = np.maximum(total.second / weight[:, None] - step**2, 0.0)
    if kind == "diagonal":
        found = found + floor
        if not (found > 0).all():
            raise np.linalg.LinAlgError("a variance is 0")
        factors = 1 / np.sqrt(found)
    else:
        found = (found + np.swapaxes(found, -1, -2)) / 2 + floor * np.eye(means.shape[1])
        factors = np.swapaxes(np.linalg.inv(np.linalg.cholesky(found)), -1, -2)
    return Mixture(weight / weight.sum(), means + step, found, factors)


def parameters(components: int, features: int, kind: Kind) -> int:
    """How many numbers a mixture is free to choose."""
    square = features * (features + 1) // 2
    spread = {"full": components * square, "diagonal": components * features, "tied": square}[kind]
    return spread + components * features + components - 1


def _weighted(rows: Array, shares: Array, means: Array, kind: Kind, density: float) -> MixtureSums:
    xp = array_module(rows)
    first, second = [], []
    for number in range(len(means)):
        apart, share = rows - means[number], shares[:, number]
        first.append(share @ apart)
        second.append(share @ apart**2 if kind == "diagonal" else (apart * share[:, None]).T @ apart)
    seconds = sum(second[1:], start=second[0]) if kind == "tied" else xp.stack(second)
    return MixtureSums(to_host(shares.sum(axis=0)), to_host(xp.stack(first)), to_host(seconds), len(rows), density)


def _nothing(features: int, components: int, kind: Kind) -> MixtureSums:
    shape = {"full": (components, features, features), "diagonal": (components, features), "tied": (features, features)}[kind]
    return MixtureSums(np.zeros(components), np.zeros((components, features)), np.zeros(shape), 0, 0.0)
