"""Linear regression of traits on each variant of a block, with covariates, from packed calls.

By Frisch, Waugh and Lovell: with g~ and r~ the genotype and the trait less what intercept and covariates Q (orthonormal) explain,
beta = g~'r~ / g~'g~ and t = beta / sqrt((r~'r~ - beta g~'r~) / df / g~'g~), df = n - k - 1. All variants and traits share one product.

A variant with missing calls M is that of its called samples, as a low-rank correction of the shared products: A = I - Q_M'Q_M and
c = -Q_M'r_M give g~'g~ = g'g - (Q'g)'A^-1 (Q'g), g~'r~ = g'r - (Q'g)'A^-1 c and r~'r~ = r'r - r_M'r_M - c'A^-1 c. Genotypes count
from their mean, and g'g is a ratio of integers, so nothing cancels for a rare variant or a rare reference allele.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipeline.backend import array_module
from pipeline.kernels.design import Design
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, alt_frequency, call_counts, missing_calls, unpack, variant_blocks

Missing = Literal["complete_case", "mean"]

FINE, TOO_FEW, MONOMORPHIC, COLLINEAR, COVARIATES = range(5)
REASONS = (
    "",
    "too few called samples",
    "no variation among the called samples",
    "collinear with the covariates",
    "the covariates are collinear among the called samples",
)
"""Why a variant has no result, by its code in `Association.reason`."""

_COLLINEAR = 1e-9
_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class Association:
    """Results of v variants and t traits; NaN where `reason` is not 0, or where a trait does not vary among the called samples."""

    beta: Array
    """`float64[v, t]`, per copy of ALT."""
    standard_error: Array
    """`float64[v, t]`."""
    statistic: Array
    """`float64[v, t]`: Student's t with `degrees_of_freedom`."""
    n: Array
    """`int64[v]`: samples in the regression."""
    degrees_of_freedom: Array
    """`int64[v]`: n less the columns of covariates and intercept, less 1."""
    effect_allele_frequency: Array
    """`float64[v]`: of ALT among the called alleles of the used samples."""
    reason: Array
    """`uint8[v]`: place in `REASONS`, 0 where all is well."""


@dataclass
class _Products:
    """Sums over the samples of one block of variants; rows are variants."""

    squares: Array
    genotype_basis: Array
    genotype_trait: Array
    trait_squares: Array
    solvable: Array


def associate(packed: Array, n_samples: int, design: Design, missing: Missing = "complete_case") -> Association:
    """Associations of every packed variant with every trait of the design.

    `complete_case` drops a variant's missing samples, as PLINK does; `mean` puts the variant's mean in their place, as regenie does.
    Raises ValueError where the design is of another number of samples.
    """
    if design.n_samples != n_samples:
        raise ValueError(f"The design is of {design.n_samples} samples, the calls are of {n_samples}.")
    xp = array_module(packed)
    design = design.beside(packed)
    shape = len(packed), design.residuals.shape[1]
    found = Association(
        beta=xp.empty(shape),
        standard_error=xp.empty(shape),
        statistic=xp.empty(shape),
        n=xp.empty(len(packed), xp.int64),
        degrees_of_freedom=xp.empty(len(packed), xp.int64),
        effect_allele_frequency=xp.empty(len(packed)),
        reason=xp.empty(len(packed), xp.uint8),
    )
    values = _values(design)
    for rows in variant_blocks(len(packed), 32 * packed.shape[1], BLOCK_BYTES // 4 if xp is np else BLOCK_BYTES):
        _fill(found, rows, packed[rows] & design.mask, design, values, missing)
    return found


def _values(design: Design) -> Array:
    """Intercept (orthonormal), basis and residuals, `float64[n_samples + 1, k + t]`: a last row of zeros ends short lists of samples."""
    xp = array_module(design.basis)
    sample = xp.arange(design.n_samples)
    used = design.mask[sample // 4] >> (2 * (sample % 4)).astype(xp.uint8) & 1
    values = xp.concatenate([used[:, None] / np.sqrt(design.used), design.basis, design.residuals], axis=1)
    return xp.concatenate([values, xp.zeros((1, values.shape[1]))])


def _fill(found: Association, rows: slice, calls: Array, design: Design, values: Array, missing: Missing) -> None:
    """The results of one block; the calls of samples that are not used are 0."""
    xp = array_module(calls)
    counts = call_counts(calls, design.n_samples)
    counts[:, 0] -= design.n_samples - design.used
    products = _products(calls, counts, design, values, missing)
    n = counts[:, :3].sum(axis=1) if missing == "complete_case" else xp.full(len(calls), design.used)
    df = n - design.columns - 1
    varies = products.squares > 0
    squares = products.squares - (products.genotype_basis**2).sum(axis=1)
    reason = xp.full(len(calls), FINE, xp.uint8)
    reason[squares <= _COLLINEAR * products.squares] = COLLINEAR
    reason[~products.solvable] = COVARIATES
    reason[~varies] = MONOMORPHIC
    reason[(df < 1) | (counts[:, :3].sum(axis=1) == 0)] = TOO_FEW
    total = (values[:, design.columns :] ** 2).sum(axis=0)
    usable = (reason == FINE)[:, None] & (products.trait_squares > 64 * _ROUNDING * total)
    squares = xp.where(reason == FINE, squares, 1.0)[:, None]
    beta = products.genotype_trait / squares
    # What rounding leaves of a perfect fit is no residual: it stays at the size of the rounding, and t finite.
    left = xp.maximum(products.trait_squares - beta * products.genotype_trait, _ROUNDING * products.trait_squares)
    error = xp.sqrt(xp.where(usable, left, 1.0) / xp.maximum(df, 1)[:, None] / squares)
    for target, column in ((found.beta, beta), (found.standard_error, error), (found.statistic, beta / error)):
        target[rows] = xp.where(usable, column, xp.nan)
    found.n[rows], found.degrees_of_freedom[rows], found.reason[rows] = n, df, reason
    found.effect_allele_frequency[rows] = alt_frequency(counts)


def _products(calls: Array, counts: Array, design: Design, values: Array, missing: Missing) -> _Products:
    """The shared products, corrected where calls are missing."""
    xp = array_module(calls)
    product = unpack(calls, design.n_samples, xp.float64, missing=0) @ values[:-1, 1:]
    called = counts[:, :3].sum(axis=1)
    alleles = counts[:, 1] + 2 * counts[:, 2]
    spread = called * (counts[:, 1] + 4 * counts[:, 2]) - alleles**2
    split = design.columns - 1
    products = _Products(
        squares=spread / xp.maximum(called, 1),
        genotype_basis=xp.concatenate([xp.zeros((len(calls), 1)), product[:, :split]], axis=1),
        genotype_trait=product[:, split:],
        trait_squares=xp.broadcast_to((values[:, design.columns :] ** 2).sum(axis=0), product[:, split:].shape).copy(),
        solvable=xp.ones(len(calls), bool),
    )
    means = alleles / xp.maximum(called, 1)
    for rows in _similar(counts[:, 3], 8 * values.shape[1], design.columns):
        _correct(products, rows, values[_missing_samples(calls[rows], design.n_samples)], means[rows], missing)
    return products


def _similar(missing: Array, bytes_per_row: int, at_least: int) -> Iterator[Array]:
    """Variants with missing calls in groups whose numbers of them lie within a factor of two and whose temporaries are bounded."""
    xp = array_module(missing)
    order = xp.argsort(missing, kind="stable")
    numbers = missing[order]
    start = int(xp.searchsorted(numbers, 1))
    while start < len(order):
        most = 2 * int(numbers[start])
        stop = min(
            int(xp.searchsorted(numbers, most, side="right")), start + max(1, (BLOCK_BYTES // 8) // (bytes_per_row * max(most, at_least)))
        )
        yield order[start:stop]
        start = stop


def _missing_samples(calls: Array, n_samples: int) -> Array:
    """Samples whose calls are missing, `int64[v, most]`; lists that are shorter end with n_samples."""
    xp = array_module(calls)
    variant, sample = missing_calls(calls, n_samples)
    numbers = xp.bincount(variant, minlength=len(calls))
    first = xp.cumsum(numbers) - numbers
    lists = xp.full((len(calls), int(numbers.max())), n_samples)
    lists[variant, xp.arange(len(variant)) - first[variant]] = sample
    return lists


def _correct(products: _Products, rows: Array, values: Array, means: Array, missing: Missing) -> None:
    """Takes the missing samples out of the products of the variants `rows`; `values` are those samples' intercept, basis and residuals.

    `values` is `float64[v, m, k + t]`, `means` the mean genotype of the called samples, `float64[v]`.
    """
    xp = array_module(values)
    columns = products.genotype_basis.shape[1]
    # Genotypes less their mean are 0 where they are missing; the intercept's and the residuals' sums over all samples are known to be 0.
    sums = means[:, None] * values.sum(axis=1)
    basis = products.genotype_basis[rows] + sums[:, :columns]
    basis[:, 0] = 0
    trait = products.genotype_trait[rows] + sums[:, columns:]
    if missing == "mean":
        products.genotype_basis[rows], products.genotype_trait[rows] = basis, trait
        return
    gram = values[:, :, :columns].transpose(0, 2, 1) @ values
    system = xp.empty((columns, columns + 1 + trait.shape[1], len(rows)))
    system[:, :columns] = xp.eye(columns)[:, :, None] - gram[:, :, :columns].transpose(1, 2, 0)
    system[:, columns] = basis.T
    system[:, columns + 1 :] = -gram[:, :, columns:].transpose(1, 2, 0)
    products.solvable[rows] = _whiten(system)
    genotype, traits = system[:, columns], system[:, columns + 1 :]
    products.genotype_basis[rows] = genotype.T
    products.genotype_trait[rows] = trait - (genotype[:, None] * traits).sum(axis=0).T
    products.trait_squares[rows] -= (values[:, :, columns:] ** 2).sum(axis=1) + (traits**2).sum(axis=0).T


def _whiten(system: Array) -> Array:
    """Turns the right-hand sides B of `system` [A | B] into L^-1 B, where A = L L' (Cholesky), in place, for all variants side by side.

    `system` is `float64[k, k + s, v]`. Returns where A is regular, `bool[v]`; its diagonal is 1 where no call is missing.
    """
    xp = array_module(system)
    regular = xp.ones(system.shape[2], bool)
    for row in range(len(system)):
        pivot = system[row, row].copy()
        regular &= pivot > _COLLINEAR
        system[row, row:] /= xp.sqrt(xp.where(regular, pivot, 1.0))
        for below in range(row + 1, len(system)):
            system[below, below:] -= system[row, below] * system[row, below:]
    return regular
