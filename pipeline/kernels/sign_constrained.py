"""A joint test of several burden scores whose effects have one sign: least squares with coefficients of 0 or more.

SBAT, Ziyatdinov et al. 2024 (Am J Hum Genet 111:2330). With z the scores of k masks (their products with the trait's residual over its
standard deviation) and A the masks' products, the coefficients b >= 0 that fit best reduce the residual sum of squares by b'A b. Under
the null that is a mixture of chi-squares of 0 to k degrees of freedom (Silvapulle & Sen 2005, Constrained Statistical Inference, chapter
3), each as likely as it is that so many coefficients are above 0. That is counted over points of Sobol's sequence, the same each time.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.cauchy import LEAST, cauchy_combination

Floats = NDArray[np.float64]

_POINTS, _INTEGRATED = 1 << 13, 1 << 9
_ENOUGH = 400  # points that make a count good to five percent
_CHOICES = 256  # choices of coefficients whose probabilities are integrated
_TOLERANCE = 1e-10
_EXPLAINED, _TIED = 1e-7, 1e-9  # of a mask's sum of squares: what is left of it is rounding; of what is left of two: they are alike
_FULL_EXCHANGES = 3
_ROUNDS = 500


def non_negative_fit(products: Floats, scores: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Coefficients `b: float64[n, k]`, 0 or more, that minimize b'A b / 2 - z'b, and which of them are free (above 0).

    `products` is `A: float64[k, k]`, positive definite, `scores` are `z: float64[n, k]`. Block principal pivoting (Kim & Park 2011, SIAM J
    Sci Comput 33:3261) of all problems at once: those that break a sign change sides, at last one at a time.
    """
    n, k = scores.shape
    free, coefficients = np.zeros((n, k), bool), np.zeros((n, k))
    fewest, chances, rows = np.full(n, k + 1), np.full(n, _FULL_EXCHANGES), np.arange(n)
    slack = _TOLERANCE * np.sqrt(np.diag(products))
    for _ in range(_ROUNDS):
        own = free[rows]
        system = np.where(own[:, :, None] & own[:, None, :], products, 0) + np.eye(k) * ~own[:, :, None]
        fitted = np.linalg.solve(system, np.where(own, scores[rows], 0)[:, :, None])[:, :, 0]
        gradient = fitted @ products - scores[rows]
        wrong = np.where(own, fitted < -_TOLERANCE / np.maximum(slack / _TOLERANCE, 1e-300), gradient < -slack)
        count = wrong.sum(axis=1)
        coefficients[rows] = fitted
        again = count > 0
        if not again.any():
            return np.maximum(coefficients, 0), free
        better = count < fewest[rows]
        chances[rows] = np.where(better, _FULL_EXCHANGES, chances[rows] - 1)
        fewest[rows] = np.minimum(count, fewest[rows])
        last = np.zeros_like(wrong)
        last[np.arange(len(rows)), k - 1 - np.argmax(wrong[:, ::-1], axis=1)] = True
        free[rows] = own ^ np.where((chances[rows] >= 0)[:, None], wrong, wrong & last)
        rows = rows[again]
    raise ValueError(f"Least squares with {k} coefficients of 0 or more did not settle in {_ROUNDS} rounds; are columns the same?")


def mixture_weights(products: Floats) -> Floats:
    """How likely it is under the null that 0 to k coefficients are above 0, `float64[k + 1]`; exact for one and for two.

    What is too rare to be counted, many coefficients above 0, decides small p-values: there the normal probabilities of each choice of
    coefficients are integrated (Genz 1992, J Comput Graph Stat 1:141), as far as there are few choices.
    """
    k = len(products)
    if k == 1:
        return np.array([0.5, 0.5])
    if k == 2:  # of two normals with this correlation: both are negative
        correlation = products[0, 1] / np.sqrt(products[0, 0] * products[1, 1])
        none = 0.25 + np.arcsin(np.clip(correlation, -1, 1)) / (2 * np.pi)
        return np.array([none, 0.5, 0.5 - none])
    free = non_negative_fit(products, _normal_points(k) @ np.linalg.cholesky(products).T)[1]
    counted = np.bincount(free.sum(axis=1), minlength=k + 1)
    found, left, size = counted / _POINTS, _CHOICES, k
    while size > 1 and counted[size] < _ENOUGH and (left := left - comb(k, size)) >= 0:
        found[size] = _chosen(products, size)
        size -= 1
    found[: size + 1] *= (1 - found[size + 1 :].sum()) / max(found[: size + 1].sum(), 1e-300)
    return np.asarray(found)


def sign_constrained_tests(products: Floats, scores: Floats, weights: Floats, freedom: float) -> tuple[float, float, float]:
    """-log10 p of both signs together (their Cauchy combination), of effects of 0 or more, and of 0 or less; of p from 1e-300 on.

    `products: float64[k, k]`, `scores: float64[k]`, `weights` those of `mixture_weights`, and `freedom` the degrees of freedom of the
    trait's residual. The variance is what all masks leave unexplained, without a constraint.
    """
    from scipy.special import chdtrc

    k = len(products)
    fits, _ = non_negative_fit(products, np.stack([scores, -scores]))
    variance = (freedom - scores @ np.linalg.solve(products, scores)) / (freedom - k)
    explained = np.einsum("ni,ij,nj->n", fits, products, fits) / variance
    tails = (float(weights[1:] @ chdtrc(np.arange(1, k + 1), max(value, 0.0))) for value in explained)
    positive, negative = (float(0.0 - np.log10(max(tail, LEAST))) for tail in tails)
    return cauchy_combination(np.array([positive, negative])), positive, negative


def independent(products: Floats) -> NDArray[np.int64]:
    """The masks that the others do not explain, by their places, in order.

    Which of masks that explain one another stay is a matter of the test: effects of the others are sums of theirs, of any sign. As in
    regenie it is always that of which most is left, of ties the first where each that is kept changes places with the first that is not.
    """
    own, order, rest = np.diag(products), np.arange(len(products)), products.copy()
    for size in range(len(products)):
        left = np.where(np.diag(rest) > _EXPLAINED * own, np.diag(rest), 0)[order[size:]]
        if not left.max() > 0:
            return np.sort(order[:size])
        at = size + int(np.argmax(left >= left.max() * (1 - _TIED)))
        order[[size, at]] = order[[at, size]]
        kept = order[size]
        rest = rest - np.outer(rest[:, kept], rest[kept]) / rest[kept, kept]
    return np.sort(order)


def _chosen(products: Floats, size: int) -> float:
    """The probability that so many coefficients are above 0: summed over all choices of them."""
    k = len(products)
    choices = np.array(list(combinations(range(k), size)))
    others = np.array([np.setdiff1d(np.arange(k), own) for own in choices])
    inverse = np.linalg.inv(products[choices[:, :, None], choices[:, None, :]])
    found = _all_positive(inverse)
    if size < k:
        cross = products[others[:, :, None], choices[:, None, :]]
        found = found * _all_positive(products[others[:, :, None], others[:, None, :]] - cross @ inverse @ cross.transpose(0, 2, 1))
    return float(found.sum())


def _all_positive(covariance: Floats) -> Floats:
    """P(all of d normals are above 0), `float64[b]`, for each covariance `[b, d, d]`."""
    from scipy.special import ndtr, ndtri

    b, d, _ = covariance.shape
    scale = np.sqrt(np.einsum("bii->bi", covariance))
    root = np.linalg.cholesky(covariance / (scale[:, :, None] * scale[:, None, :]))
    uniform = ndtr(_normal_points(d))[:_INTEGRATED]
    found, values = np.ones((b, len(uniform))), np.zeros((b, len(uniform), d))
    for i in range(d):
        above = ndtr((values[:, :, :i] @ root[:, i, :i, None])[:, :, 0] / root[:, i, i, None])
        found *= above
        values[:, :, i] = -ndtri(np.maximum(uniform[:, i] * above, 1e-300))
    return np.asarray(found.mean(axis=1))


@cache
def _normal_points(k: int) -> Floats:
    """Normal numbers `float64[points, k]` that fill space evenly."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    return np.asarray(ndtri(qmc.Sobol(k, scramble=True, rng=20261121).random(_POINTS)))
