"""What one step of a logistic regression needs, for many variants side by side: gradient, information, and Newton's step from them.

Notation is that of logistic_regression.py: genotypes are signed (times 1 for cases, -1 for controls), as is the basis of the null model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_null import NullModel


@dataclass(frozen=True)
class Maximum:
    """Of v variants; NaN where none was reached."""

    point: Array
    """`float64[v, k + 1]`: coefficients of the basis and, last, of the genotype."""
    standard_error: Array
    """`float64[v]`: of the genotype's, from X'WX."""

    @property
    def beta(self) -> Array:
        """`float64[v]`."""
        return self.point[:, -1]

    @classmethod
    def unknown(cls, null: NullModel, count: int) -> Maximum:
        """Of variants none of which has one yet."""
        return cls(null.xp.full((count, len(null.basis) + 1), null.xp.nan), null.xp.full(count, null.xp.nan))


@dataclass(frozen=True)
class LikelihoodTerms:
    """Of the log likelihood at v points."""

    missed: Array
    """`float64[v, n]`: probability of what a person is not; 0 where the genotype is missing, as the weights."""
    weights: Array
    """`float64[v, n]`."""
    gradient: Array
    """`float64[v, k + 1]`."""
    information: Array
    """`float64[v, k + 1, k + 1]`: X'WX."""


@dataclass(frozen=True)
class Solved:
    """Of v symmetric positive definite systems."""

    solution: Array
    """`float64[v, k, s]`; it means nothing where `least` is 0."""
    last: Array
    """`float64[v]`: the last pivot, what is left of the last variable's own entry when the others explain it."""
    least: Array
    """`float64[v]`: the least share of a pivot in its diagonal entry; 0 where the matrix is not positive definite."""
    log_determinant: Array
    """`float64[v]`."""


def centre(genotypes: Array) -> tuple[Array, Array]:
    """Genotypes `float64[v, n]` less the mean of the called and 0 where missing (NaN), and a mask, 0 where missing, else 1."""
    if array_module(genotypes) is np:
        from pipeline.kernels.compiled.logistic import centre_each

        centred, mask = np.empty(genotypes.shape), np.empty(genotypes.shape)
        centre_each(np.ascontiguousarray(genotypes), centred, mask)
        return centred, mask
    return centre_plain(genotypes)


def centre_plain(genotypes: Array) -> tuple[Array, Array]:
    """What `centre` gives, by array operations: on a GPU, and as the compiled kernel's oracle."""
    xp = array_module(genotypes)
    called = ~xp.isnan(genotypes)
    means = xp.where(called, genotypes, 0).sum(axis=1) / xp.maximum(called.sum(axis=1), 1)
    return xp.where(called, genotypes - means[:, None], 0), called.astype(xp.float64)


def likelihood_terms(signed: Array, mask: Array, null: NullModel, points: Array) -> LikelihoodTerms:
    """Gradient and information of the log likelihood.

    `signed: float64[v, n]` are centred genotypes times the signs, 0 where missing, as is `mask: float64[v, n]`, else 1;
    `points: float64[v, k + 1]` are coefficients of the basis and, last, of the genotype.
    """
    xp = array_module(signed)
    columns = len(null.basis)
    margins = points[:, :columns] @ null.signed
    if null.offset is not None:
        margins += null.shift
    slopes = xp.ascontiguousarray(points[:, columns])
    missed, weights, weighted, own_gradient, own_information = _terms(margins, signed, mask, slopes)
    gradient = xp.concatenate([missed @ null.signed.T, own_gradient[:, None]], axis=1)
    return LikelihoodTerms(missed, weights, gradient, weighted_squares(weights, weighted, own_information, null))


def weighted_squares(weights: Array, weighted: Array, own: Array, null: NullModel) -> Array:
    """X'WX, `float64[v, k + 1, k + 1]`, from weights and weighted genotypes `float64[v, n]` and the genotypes' own entry `float64[v]`."""
    xp = array_module(weights)
    pairs = sum(weights[:, people] @ products.T for people, products in null.pair_blocks())
    cross = weighted @ null.signed.T
    if xp is np:
        from pipeline.kernels.compiled.logistic_systems import fill_squares

        squares = np.empty((len(own), cross.shape[1] + 1, cross.shape[1] + 1))
        fill_squares(pairs, cross, own, squares)
        return squares
    return squares_plain(pairs, cross, own)


def squares_plain(pairs: Array, cross: Array, own: Array) -> Array:
    """Symmetric matrices `float64[v, k + 1, k + 1]` from the first k rows' upper triangles, the last column, and its own entry."""
    xp = array_module(cross)
    columns = cross.shape[1]
    squares = xp.empty((len(own), columns + 1, columns + 1))
    first, second = xp.triu_indices(columns)
    squares[:, first, second] = squares[:, second, first] = pairs
    squares[:, columns, :columns] = squares[:, :columns, columns] = cross
    squares[:, columns, columns] = own
    return squares


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


def solve(matrices: Array, right: Array) -> Solved:
    """Symmetric positive definite systems `float64[v, k, k]` with right sides `float64[v, k, s]`, by Cholesky."""
    if array_module(matrices) is np:
        from pipeline.kernels.compiled.logistic_systems import solve_each

        solution, last, least, determinant = np.array(right), *(np.empty(len(matrices)) for _ in range(3))
        solve_each(np.ascontiguousarray(matrices), solution, last, least, determinant)
        return Solved(solution, last, least, determinant)
    return solve_plain(matrices, right)


def invert(matrices: Array) -> Solved:
    """The inverses of symmetric positive definite matrices `float64[v, k, k]`, and what else `solve` gives."""
    xp = array_module(matrices)
    if xp is np:
        from pipeline.kernels.compiled.logistic_systems import invert_each

        inverse, least, determinant = np.empty(matrices.shape), np.empty(len(matrices)), np.empty(len(matrices))
        invert_each(np.ascontiguousarray(matrices), inverse, least, determinant)
        return Solved(inverse, 1 / inverse[:, -1, -1], least, determinant)
    return solve_plain(matrices, xp.broadcast_to(xp.eye(matrices.shape[1]), matrices.shape))


def solve_plain(matrices: Array, right: Array) -> Solved:
    """What `solve` gives, by array operations for all systems side by side."""
    xp = array_module(matrices)
    size = matrices.shape[1]
    system = xp.concatenate([matrices, right], axis=2).transpose(1, 2, 0).copy()
    least, last, determinant = xp.ones(len(matrices)), xp.zeros(len(matrices)), xp.zeros(len(matrices))
    for row in range(size):
        last = system[row, row].copy()
        above = last > 0
        least = xp.where(above, xp.minimum(least, last / xp.where(above, matrices[:, row, row], 1.0)), 0.0)
        determinant += xp.log(xp.where(above, last, 1.0))
        system[row, row:] /= xp.sqrt(xp.where(above, last, 1.0))
        system[row, row] = xp.where(above, system[row, row], 1.0)
        system[row + 1 :, row + 1 :] -= system[row, row + 1 : size][:, None] * system[row, row + 1 :]
    solution = system[:, size:]
    for row in range(size - 1, -1, -1):
        solution[row] /= system[row, row]
        solution[:row] -= system[:row, row][:, None] * solution[row]
    return Solved(solution.transpose(2, 0, 1), last, least, determinant)


def land(people: tuple[Array, Array, Array], null: NullModel, step: Array, turned: Array) -> tuple[Array, Array]:
    """The most that a step moves anybody's log odds, and how much it takes off the genotype's variance, `float64[v]` each.

    `people` are signed genotypes, mask, and the derivatives w' of the weights by the log odds, `float64[v, n]`, 0 where missing;
    `step: float64[v, k + 1]`, and `turned` the last column of A^-1, A = X'WX: that of the point that is reached is, to the first order,
    A^-1 - A^-1 X'diag(w' X step)X A^-1.
    """
    xp, columns = null.xp, len(null.basis)
    margins = xp.concatenate([step, turned])[:, :columns] @ null.signed
    slopes = xp.ascontiguousarray(step[:, columns]), xp.ascontiguousarray(turned[:, columns])
    if xp is np:
        from pipeline.kernels.compiled.logistic import land_each

        moves, changes = np.empty(len(step)), np.empty(len(step))
        land_each(margins[: len(step)], margins[len(step) :], people, slopes, (moves, changes))
        return moves, changes
    return land_plain(margins[: len(step)], margins[len(step) :], people, slopes)


def land_plain(moved: Array, turned: Array, people: tuple[Array, Array, Array], slopes: tuple[Array, Array]) -> tuple[Array, Array]:
    """What `land` gives from the covariates' margins and the genotype's slopes, by array operations: on a GPU, and as the oracle."""
    signed, mask, bends = people
    moved = (moved + signed * slopes[0][:, None]) * mask
    turned = turned + signed * slopes[1][:, None]
    return abs(moved).max(axis=1), array_module(moved).einsum("vn,vn,vn->v", bends * turned, turned, moved)
