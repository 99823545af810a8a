"""Losses of generalized linear models and what their sums over rows are: the value, the gradient and the Hessian that solvers step by.

The loss of a row is half its deviance: half the squared error (normal), log loss (binomial, multinomial), y log(y / mu) - y + mu (poisson),
y / mu - 1 - log(y / mu) (gamma); McCullagh & Nelder (1989), Generalized linear models. Links: identity, logit, softmax, logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline.backend.arrays import array_module, special_module, to_host
from pipeline.kernels.genotypes import Array

Family = Literal["normal", "binomial", "multinomial", "base_class", "poisson", "gamma"]
"""`base_class` is a multinomial whose first class is the base: its linear predictor is 0, and it has no coefficients."""


@dataclass(frozen=True)
class LossSums:
    """Sums over rows, on the host: of weights, losses, their gradient and Hessian (None where it was not asked for), Pearson's chi-square.

    Of c columns and m outputs the gradient is `float64[c, m]`, the Hessian `float64[m c, m c]`, output by output.
    """

    weight: float
    loss: float
    gradient: np.ndarray[Any, Any]
    hessian: np.ndarray[Any, Any] | None
    pearson: float = 0.0

    def plus(self, other: LossSums) -> LossSums:
        """Over both one's rows."""
        hessian = None if self.hessian is None or other.hessian is None else self.hessian + other.hessian
        weight, loss, pearson = self.weight + other.weight, self.loss + other.loss, self.pearson + other.pearson
        return LossSums(weight, loss, self.gradient + other.gradient, hessian, pearson)


def loss_sums(design: Array, target: Array, weights: Array, coefficients: Array, family: Family, *, hessian: bool = True) -> LossSums:
    """Sums of a block: `design [n, c]`, `target [n]` (class numbers of a multinomial), `weights [n]`, `coefficients [c, m]`."""
    predictor = design @ coefficients
    if family in ("multinomial", "base_class"):
        return _of_classes(design, target, weights, with_base(predictor, family), hessian=hessian, first=family == "base_class")
    xp = array_module(design)
    loss, slope, curvature, pearson = _terms(predictor[:, 0], target, family)
    gradient = to_host(design.T @ (weights * slope))[:, None]
    second = to_host((design * (weights * curvature)[:, None]).T @ design) if hessian else None
    return LossSums(float(weights.sum()), float(xp.dot(weights, loss)), gradient, second, float(xp.dot(weights, pearson)))


def mean_of(predictor: Array, family: Family) -> Array:
    """The mean of the target, of linear predictors `[n, 1]`, as `[n]`; the classes' probabilities `[n, K]` of a multinomial's `[n, K]`."""
    xp = array_module(predictor)
    if family in ("multinomial", "base_class"):
        raised = xp.exp(predictor - predictor.max(axis=1)[:, None])
        return raised / raised.sum(axis=1)[:, None]
    flat = xp.ascontiguousarray(predictor[:, 0])
    if family == "normal":
        return flat
    return special_module(flat).expit(flat) if family == "binomial" else xp.exp(flat)


def with_base(predictor: Array, family: Family) -> Array:
    """Linear predictors of all classes: those of the base, 0, before the others."""
    if family != "base_class":
        return predictor
    xp = array_module(predictor)
    return xp.concatenate([xp.zeros((len(predictor), 1)), predictor], axis=1)


def _terms(predictor: Array, target: Array, family: Family) -> tuple[Array, Array, Array, Array]:
    """A row's loss, its first and second derivative by the linear predictor, and its share of Pearson's chi-square."""
    xp = array_module(predictor)
    if family == "normal":
        apart = predictor - target
        return apart**2 / 2, apart, xp.ones_like(apart), apart**2
    if family == "binomial":
        mean = special_module(predictor).expit(predictor)
        return xp.logaddexp(0.0, predictor) - target * predictor, mean - target, mean * (1 - mean), xp.zeros_like(mean)
    if family == "poisson":
        mean = xp.exp(predictor)
        saturated = target * xp.log(xp.maximum(target, 1e-300)) - target
        return saturated + mean - target * predictor, mean - target, mean, xp.zeros_like(mean)
    ratio = target * xp.exp(-predictor)
    return ratio + predictor - xp.log(target) - 1, 1 - ratio, ratio, (ratio - 1) ** 2


def _of_classes(design: Array, target: Array, weights: Array, predictor: Array, *, hessian: bool, first: bool) -> LossSums:
    """Sums of a multinomial, of linear predictors `[n, K]`; `first`: the first class has no coefficients."""
    xp = array_module(design)
    numbers = xp.arange(predictor.shape[1])
    chosen = target[:, None] == numbers
    most = predictor.max(axis=1)
    raised = xp.exp(predictor - most[:, None])
    total = raised.sum(axis=1)
    share = raised / total[:, None]
    loss = most + xp.log(total) - xp.where(chosen, predictor, 0.0).sum(axis=1)
    free = range(1 if first else 0, predictor.shape[1])
    gradient = to_host(design.T @ (weights[:, None] * (share - chosen)))[:, free.start :]
    second = _curvatures(design, weights, [share[:, k] for k in free]) if hessian else None
    return LossSums(float(weights.sum()), float(xp.dot(weights, loss)), gradient, second)


def _curvatures(design: Array, weights: Array, shares: list[Array]) -> np.ndarray[Any, Any]:
    """The Hessian of a multinomial, block by block: X'WX with w p_k (1 - p_k), or - w p_k p_l of two classes."""
    columns, outputs = design.shape[1], len(shares)
    hessian = np.empty((outputs * columns, outputs * columns))
    for k in range(outputs):
        for other in range(k, outputs):
            factor = shares[k] * (1 - shares[k]) if other == k else -shares[k] * shares[other]
            block = to_host((design * (weights * factor)[:, None]).T @ design)
            rows, across = (slice(at * columns, (at + 1) * columns) for at in (k, other))
            hessian[rows, across], hessian[across, rows] = block, block.T
    return hessian
