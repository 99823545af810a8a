"""Linear regression of traits on each variant of a block, with covariates, from packed calls or dosages.

By Frisch, Waugh and Lovell: with g~ and r~ the genotype and the trait less what intercept and covariates Q (orthonormal) explain,
beta = g~'r~ / g~'g~ and t = beta / sqrt((r~'r~ - beta g~'r~) / df / g~'g~), df = n - k - 1. All variants and traits share one product.

A variant with missing calls M is that of its called samples, as a low-rank correction of the shared products: A = I - Q_M'Q_M and
c = -Q_M'r_M give g~'g~ = g'g - (Q'g)'A^-1 (Q'g), g~'r~ = g'r - (Q'g)'A^-1 c and r~'r~ = r'r - r_M'r_M - c'A^-1 c. Genotypes count
from their mean, and g'g of calls is a ratio of integers, so nothing cancels for a rare variant or a rare reference allele.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, variant_blocks
from pipeline.kernels.linear_products import Products, block_products

Missing = Literal["complete_case", "mean"]

FINE, TOO_FEW, MONOMORPHIC, COLLINEAR, COVARIATES, FLAT = range(6)
REASONS = (
    "",
    "too few called samples",
    "no variation among the called samples",
    "collinear with the covariates",
    "the covariates are collinear among the called samples",
    "the trait does not vary among the called samples",
)
"""Why a variant has no result, by its code in `Association.reason`."""

COLLINEAR_BELOW = 1e-9
ROUNDING = 2.0**-50


@dataclass(frozen=True)
class Association:
    """Results of v variants and t traits; NaN where `reason` is not 0."""

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
    """`uint8[v, t]`: place in `REASONS`, 0 where all is well."""

    @classmethod
    def empty(cls, variants: int, traits: int, xp: Any = np) -> Association:
        """Arrays to be filled, of NumPy or CuPy."""
        shape = variants, traits
        return cls(
            beta=xp.empty(shape),
            standard_error=xp.empty(shape),
            statistic=xp.empty(shape),
            n=xp.empty(variants, xp.int64),
            degrees_of_freedom=xp.empty(variants, xp.int64),
            effect_allele_frequency=xp.empty(variants),
            reason=xp.empty(shape, xp.uint8),
        )


def associate(block: GenotypeBlock, design: Design, missing: Missing = "complete_case") -> Association:
    """Associations of every variant of a block with every trait of the design.

    `complete_case` drops a variant's missing samples, as PLINK does; `mean` puts the variant's mean in their place, as regenie does.
    Raises ValueError where the design is of another number of samples.
    """
    if design.n_samples != block.n_samples:
        raise ValueError(f"The design is of {design.n_samples} samples, the calls are of {block.n_samples}.")
    design = design.beside(block.array)
    if block.compiled:
        return _associate_compiled(block, design, missing)
    if block.xp is np:
        return associate_plain(block, design, missing)
    from pipeline.kernels.device.linear import associate_on_device

    return associate_on_device(block, design, missing)


def _associate_compiled(block: GenotypeBlock, design: Design, missing: Missing) -> Association:
    """What `associate_plain` gives for packed calls in a CPU's memory, to rounding."""
    from pipeline.kernels.compiled.linear import regress
    from pipeline.kernels.compiled.products import calls_product

    calls = block.calls
    if design.used < design.n_samples or not (calls.flags.c_contiguous and calls.flags.writeable):
        calls = calls & design.mask  # no view of a file's bytes, either: numba would compile for those once more
    found = Association.empty(len(block), design.residuals.shape[1])
    values, totals = design.values(), (design.residuals**2).sum(axis=0)
    product = calls_product(calls, values, block.codes)
    settings = design.used, design.columns, *block.codes, missing == "complete_case", COLLINEAR_BELOW, ROUNDING, totals
    arrays = (
        found.beta, found.standard_error, found.statistic, found.reason, found.n, found.degrees_of_freedom, found.effect_allele_frequency,
    )  # fmt: skip
    regress(calls, product, values, settings, arrays)
    return found


def associate_plain(block: GenotypeBlock, design: Design, missing: Missing = "complete_case") -> Association:
    """What `associate` gives, by array operations alone: for dosages, and as the oracle of the compiled and the GPU's kernels."""
    xp = block.xp
    found = Association.empty(len(block), design.residuals.shape[1], xp)
    # Eight bytes a sample, and a few temporaries of that size.
    for rows in variant_blocks(len(block), 32 * -(-block.n_samples // 4), BLOCK_BYTES // 4):
        products = block_products(block.part(rows), design, complete_case=missing == "complete_case", regular_above=COLLINEAR_BELOW)
        values = _finish(products, design, missing)
        for field in fields(Association):
            getattr(found, field.name)[rows] = getattr(values, field.name)
    return found


def _finish(products: Products, design: Design, missing: Missing) -> Association:
    """Estimates and their statistics from the products of a block."""
    xp = design.xp
    n = products.called.astype(xp.int64) if missing == "complete_case" else xp.full(len(products.called), design.used)
    df = n - design.columns - 1
    squares = products.squares - (products.genotype_basis**2).sum(axis=1)
    reason = xp.full(len(n), FINE, xp.uint8)
    reason[squares <= COLLINEAR_BELOW * products.squares] = COLLINEAR
    reason[~products.solvable] = COVARIATES
    reason[products.squares <= products.least_squares] = MONOMORPHIC
    reason[(df < 1) | (products.called == 0)] = TOO_FEW
    flat = products.trait_squares <= 64 * ROUNDING * (design.residuals**2).sum(axis=0)
    reasons = xp.where((reason == FINE)[:, None] & flat, xp.uint8(FLAT), reason[:, None])
    fine = reasons == FINE
    squares = xp.where(reason == FINE, squares, 1.0)[:, None]
    beta = products.genotype_trait / squares
    # What rounding leaves of a perfect fit is no residual: it stays at the size of the rounding, and t finite.
    left = xp.maximum(products.trait_squares - beta * products.genotype_trait, ROUNDING * products.trait_squares)
    error = xp.sqrt(xp.where(fine, left, 1.0) / xp.maximum(df, 1)[:, None] / squares)
    beta, error, statistic = (xp.where(fine, values, xp.nan) for values in (beta, error, beta / error))
    return Association(beta, error, statistic, n, df, products.frequency, reasons)
