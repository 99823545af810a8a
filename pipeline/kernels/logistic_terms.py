"""What one step of a logistic regression needs, for many variants side by side: gradient, information, and Newton's step from them.

Notation is that of logistic_regression.py: genotypes are signed (times 1 for cases, -1 for controls), as is the basis of the null model.
"""

from __future__ import annotations

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_design import NullModel


def gradient_and_information(signed: Array, mask: Array, null: NullModel, points: Array, *, firth: bool) -> tuple[Array, Array]:
    """Gradient `float64[v, k + 1]` of the log likelihood (`firth`: the penalized one) and information X'WX `float64[v, k + 1, k + 1]`.

    `signed: float64[v, n]` are centred genotypes times the signs, 0 where missing, as is `mask: float64[v, n]`, else 1;
    `points: float64[v, k + 1]` are coefficients of the basis and, last, of the genotype.
    """
    xp = array_module(signed)
    columns = len(null.basis)
    margins = points[:, :columns] @ null.signed
    slopes = xp.ascontiguousarray(points[:, columns])
    missed, weights, weighted, own_gradient, own_information = _terms(margins, signed, mask, slopes)
    information = xp.empty((len(signed), columns + 1, columns + 1))
    first, second = xp.triu_indices(columns)
    pairs = sum(weights[:, people] @ products.T for people, products in null.pair_blocks())
    information[:, first, second] = information[:, second, first] = pairs
    information[:, columns, :columns] = information[:, :columns, columns] = weighted @ null.signed.T
    information[:, columns, columns] = own_information
    if firth:
        own_gradient = _penalize(missed, weights, signed, null, information)
    return xp.concatenate([missed @ null.signed.T, own_gradient[:, None]], axis=1), information


def _terms(margins: Array, signed: Array, mask: Array, slopes: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Missed probabilities, weights and weighted genotypes, `float64[v, n]`; the genotype's own gradient and information, `float64[v]`.

    `margins` are those of the covariates; they are overwritten.
    """
    xp = array_module(margins)
    if xp is np:
        from pipeline.kernels.compiled.logistic import fill_terms

        weights, weighted, gradient, information = (np.empty(shape) for shape in (margins.shape,) * 2 + (slopes.shape,) * 2)
        fill_terms(margins, signed, mask, slopes, (weights, weighted, gradient, information))
        return margins, weights, weighted, gradient, information
    return terms_plain(margins, signed, mask, slopes)


def terms_plain(margins: Array, signed: Array, mask: Array, slopes: Array) -> tuple[Array, Array, Array, Array, Array]:
    """What `fill_terms` computes, by array operations: on a GPU, and as the compiled kernel's oracle."""
    xp = array_module(margins)
    odds = xp.exp(xp.minimum(-(margins + signed * slopes[:, None]), 700))
    hit = 1 / (1 + odds)
    missed = odds * hit * mask
    weights = missed * hit
    weighted = weights * signed
    return missed, weights, weighted, xp.einsum("vn,vn->v", missed, signed), xp.einsum("vn,vn->v", weighted, signed)


def _penalize(missed: Array, weights: Array, signed: Array, null: NullModel, information: Array) -> Array:
    """Adds Firth's penalty to the missed probabilities, in place, and gives the genotype's own penalized gradient, `float64[v]`."""
    xp = array_module(missed)
    columns = len(null.basis)
    inverse, _, _ = solve(information, xp.broadcast_to(xp.eye(columns + 1), information.shape))
    first, second = xp.triu_indices(columns)
    pairs = inverse[:, first, second] * xp.where(first == second, 1.0, 2.0)
    leverages = xp.empty_like(missed)
    for people, products in null.pair_blocks():
        leverages[:, people] = pairs @ products
    cross = 2 * inverse[:, columns, :columns] @ null.signed
    own = xp.ascontiguousarray(inverse[:, columns, columns])
    if xp is np:
        from pipeline.kernels.compiled.logistic import penalize

        gradient = np.empty(len(missed))
        penalize(missed, weights, signed, (leverages, cross, own), gradient)
        return gradient
    return penalize_plain(missed, weights, signed, leverages, cross, own)


def penalize_plain(missed: Array, weights: Array, signed: Array, leverages: Array, cross: Array, own: Array) -> Array:
    """What the compiled `penalize` computes, by array operations: on a GPU, and as its oracle."""
    leverages = (leverages + signed * (cross + signed * own[:, None])) * weights
    missed += leverages * (missed - 0.5)
    return array_module(missed).einsum("vn,vn->v", missed, signed)


def solve(matrices: Array, right: Array) -> tuple[Array, Array, Array]:
    """Solutions `float64[v, k, s]` of symmetric positive definite systems `float64[v, k, k]`, by Cholesky.

    Also the last pivot (what is left of the last variable's own entry when the others explain it), and the least share of a pivot in its
    diagonal entry, `float64[v]` each; that is 0 where the matrix is not positive definite, and then the solution means nothing.
    """
    if array_module(matrices) is np:
        from pipeline.kernels.compiled.logistic import solve_each

        solution, last, least = np.array(right), np.empty(len(matrices)), np.empty(len(matrices))
        solve_each(np.array(matrices), solution, last, least)
        return solution, last, least
    return solve_plain(matrices, right)


def solve_plain(matrices: Array, right: Array) -> tuple[Array, Array, Array]:
    """What `solve` gives, by array operations for all systems side by side."""
    xp = array_module(matrices)
    size = matrices.shape[1]
    system = xp.concatenate([matrices, right], axis=2).transpose(1, 2, 0).copy()
    least, last = xp.ones(len(matrices)), xp.zeros(len(matrices))
    for row in range(size):
        last = system[row, row].copy()
        above = last > 0
        least = xp.where(above, xp.minimum(least, last / xp.where(above, matrices[:, row, row], 1.0)), 0.0)
        system[row, row:] /= xp.sqrt(xp.where(above, last, 1.0))
        system[row, row] = xp.where(above, system[row, row], 1.0)
        system[row + 1 :, row + 1 :] -= system[row, row + 1 : size][:, None] * system[row, row + 1 :]
    solution = system[:, size:]
    for row in range(size - 1, -1, -1):
        solution[row] /= system[row, row]
        solution[:row] -= system[:row, row][:, None] * solution[row]
    return solution.transpose(2, 0, 1), last, least
