"""Firth's penalized likelihood of a logistic regression, for many variants side by side: value, gradient, and second derivatives.

l* = l + 1/2 log |A| with A = X'WX (Firth 1993, Biometrika 80:27-38). With q = x'A^-1x of each person, h = w q his leverage, w' = w(1 - 2p)
and w'' = w(1 - 6w) the derivatives of his weight, and G = X A^-1 X', the gradient is X'(r + h(1/2 - p)) and the second derivatives are
-X'WX + 1/2 X'diag(q w'')X - 1/2 (w'X)'(G*G)(w'X). The last is taken from sums of triples: with S_c = sum of w' x_c x x', its entry c, d is
1/2 trace(S_c A^-1 S_d A^-1), so no matrix of people by people is formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_null import NullModel, triple_places
from pipeline.kernels.logistic_terms import invert, likelihood_terms, weighted_squares

_SINGULAR = 1e-12


@dataclass(frozen=True)
class PenalizedTerms:
    """Of the penalized likelihood at v points."""

    value: Array
    """`float64[v]`: l*; -infinity where X'WX is singular."""
    gradient: Array
    """`float64[v, k + 1]`."""
    information: Array
    """`float64[v, k + 1, k + 1]`: X'WX."""
    inverse: Array
    """`float64[v, k + 1, k + 1]`: of X'WX."""
    missed: Array
    """`float64[v, n]`: probability of what a person is not, and h times what it is above a half."""
    weights: Array
    """`float64[v, n]`."""
    leverages: Array
    """`float64[v, n]`: h."""
    largest: Array
    """`float64[v]`: the largest q."""
    regular: Array
    """`bool[v]`: X'WX is not singular."""


def penalized_terms(signed: Array, mask: Array, null: NullModel, points: Array, *, valued: bool = True) -> PenalizedTerms:
    """Value and gradient at `points: float64[v, k + 1]`; arguments are those of `likelihood_terms`. The value is NaN if not `valued`."""
    xp = array_module(signed)
    columns = len(null.basis)
    terms = likelihood_terms(signed, mask, null, points)
    solved = invert(terms.information)
    likelihood = log_likelihood(terms.missed, terms.weights) if valued else xp.nan
    inverse = solved.solution
    pairs = _pairs(inverse)
    leverages = xp.empty_like(terms.missed)
    for people, products in null.pair_blocks():
        leverages[:, people] = pairs @ products
    cross, own = 2 * inverse[:, columns, :columns] @ null.signed, xp.ascontiguousarray(inverse[:, columns, columns])
    missed, leverages, slope, largest = _penalize(terms.missed, terms.weights, signed, (leverages, cross, own))
    gradient = xp.concatenate([missed @ null.signed.T, slope[:, None]], axis=1)
    regular = solved.least > _SINGULAR
    value = xp.where(regular, likelihood + 0.5 * solved.log_determinant, -xp.inf)
    return PenalizedTerms(value, gradient, terms.information, inverse, missed, terms.weights, leverages, largest, regular)


def penalized_value(signed: Array, mask: Array, null: NullModel, points: Array) -> Array:
    """The value alone, `float64[v]`, for half the work."""
    xp, terms = array_module(signed), likelihood_terms(signed, mask, null, points)
    solved, likelihood = invert(terms.information), log_likelihood(terms.missed, terms.weights)
    return xp.where(solved.least > _SINGULAR, likelihood + 0.5 * solved.log_determinant, -xp.inf)


def _pairs(squares: Array) -> Array:
    """Of symmetric `float64[v, k + 1, k + 1]` without the last column: what a sum over pairs i <= j of columns needs."""
    if array_module(squares) is np:
        from pipeline.kernels.compiled.logistic_systems import fill_pairs

        columns = squares.shape[1] - 1
        pairs = np.empty((len(squares), columns * (columns + 1) // 2))
        fill_pairs(squares, pairs)
        return pairs
    return pairs_plain(squares)


def pairs_plain(squares: Array) -> Array:
    """What the compiled `fill_pairs` computes, by array operations: on a GPU, and as its oracle."""
    xp = array_module(squares)
    first, second = xp.triu_indices(squares.shape[1] - 1)
    return squares[:, first, second] * xp.where(first == second, 1.0, 2.0)


def curvature(signed: Array, null: NullModel, terms: PenalizedTerms, rows: Array) -> Array:
    """Minus the second derivatives, `float64[r, k + 1, k + 1]`, at some of the points; they need not be positive definite."""
    xp = array_module(signed)
    genotype, weights, h, inverse = signed[rows], terms.weights[rows], terms.leverages[rows], terms.inverse[rows]
    bent = weights - 0.5 * h * (1 - 6 * weights)
    weighted = bent * genotype
    second = weighted_squares(bent, weighted, xp.einsum("vn,vn->v", weighted, genotype), null)
    slope = weights * (2 * terms.missed[rows] - 1) / (1 + h)
    return second + 0.5 * _traces(_triple_sums(slope, genotype, null), inverse)


def _traces(sums: Array, inverse: Array) -> Array:
    """trace(S_c A^-1 S_d A^-1) of each two columns, `float64[r, k + 1, k + 1]`, from sums of triples and A^-1."""
    if array_module(sums) is np:
        from pipeline.kernels.compiled.logistic import fill_traces

        traces = np.empty(inverse.shape)
        fill_traces(sums, triple_places(inverse.shape[1] - 1), np.ascontiguousarray(inverse), traces)
        return traces
    return traces_plain(sums, inverse)


def traces_plain(sums: Array, inverse: Array) -> Array:
    """What the compiled `fill_traces` computes, by array operations: on a GPU, and as its oracle."""
    size = inverse.shape[1]
    cubes = sums[:, array_module(sums).asarray(triple_places(size - 1))]
    turned = cubes.reshape(-1, size * size, size) @ inverse
    mirrored = turned.reshape(-1, size, size, size).transpose(0, 2, 3, 1).reshape(-1, size * size, size)
    swapped = turned.reshape(-1, size, size, size).transpose(0, 1, 3, 2).reshape(-1, size, size * size)
    return swapped @ mirrored


def _triple_sums(slope: Array, genotype: Array, null: NullModel) -> Array:
    """Sums of w' times each three columns of X, `float64[v, t]`: of the basis alone, with the genotype once, twice, and three times."""
    xp = array_module(slope)
    signed, once = slope * null.signs, slope * genotype
    twice = once * genotype
    three = sum(signed[:, people] @ products.T for people, products in null.triple_blocks())
    two = sum(once[:, people] @ products.T for people, products in null.pair_blocks())
    return xp.concatenate([three, two, twice @ null.signed.T, xp.einsum("vn,vn->v", twice, genotype)[:, None]], axis=1)


def log_likelihood(missed: Array, weights: Array) -> Array:
    """Log likelihoods `float64[v]` from the probabilities of what people are not and their weights, `float64[v, n]`, 0 where unknown."""
    if array_module(missed) is np:
        from pipeline.kernels.compiled.logistic import log_likelihood_each

        found = np.empty(len(missed))
        log_likelihood_each(missed, weights, found)
        return found
    return log_likelihood_plain(missed, weights)


def log_likelihood_plain(missed: Array, weights: Array) -> Array:
    """What `log_likelihood` gives, by array operations: on a GPU, and as the compiled kernel's oracle."""
    xp = array_module(missed)
    known = missed > 0
    return xp.where(known, xp.log(xp.where(known, weights, 1.0) / xp.where(known, missed, 1.0)), 0.0).sum(axis=1)


def _penalize(missed: Array, weights: Array, signed: Array, hat: tuple[Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Adds the penalty to the missed probabilities, and makes leverages of `hat`; both in place.

    Also the genotype's own gradient, and the largest q.
    """
    if array_module(missed) is np:
        from pipeline.kernels.compiled.logistic import penalize

        gradient, largest = np.empty(len(missed)), np.empty(len(missed))
        penalize(missed, weights, signed, hat, (gradient, largest))
        return missed, hat[0], gradient, largest
    return penalize_plain(missed, weights, signed, hat)


def penalize_plain(missed: Array, weights: Array, signed: Array, hat: tuple[Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """What the compiled `penalize` computes, by array operations: on a GPU, and as its oracle.

    `hat` are x'A^-1x of the covariates alone and twice their products with the genotype, `float64[v, n]`, and the genotype's own entry.
    """
    leverages, cross, own = hat
    squares = leverages + signed * (cross + signed * own[:, None])
    leverages = squares * weights
    missed = missed + leverages * (missed - 0.5)
    return missed, leverages, array_module(missed).einsum("vn,vn->v", missed, signed), squares.max(axis=1)
