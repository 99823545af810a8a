"""Linear regression of a block of variants on a GPU: one product, and a kernel each for what comes before and after it."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backend.launch import DeviceKernel, blocks_for
from pipeline.backend.memory import block_bytes
from pipeline.kernels.design import Design
from pipeline.kernels.device.centred import FREQUENCY, SQUARES, centred
from pipeline.kernels.device.explained import explained
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, variant_blocks
from pipeline.kernels.linear_regression import (
    COLLINEAR,
    COLLINEAR_BELOW,
    COVARIATES,
    FINE,
    FLAT,
    MONOMORPHIC,
    ROUNDING,
    TOO_FEW,
    Association,
    Missing,
)

if TYPE_CHECKING:
    from numba import cuda


def reason_of(moments: tuple[float, float, float], own: tuple[float, float], flat: bool, df: int) -> int:
    """Why there is no estimate: of called, g'g and its rounding, of what covariates leave of it and the least pivot."""
    called, squares, rounding = moments
    if df < 1 or called == 0:
        return TOO_FEW
    if squares <= rounding:
        return MONOMORPHIC
    if not own[1] > COLLINEAR_BELOW:
        return COVARIATES
    if own[0] <= COLLINEAR_BELOW * squares:
        return COLLINEAR
    return FLAT if flat else FINE


def estimate_linear(
    moments: Any, own: Any, crossed: Any, totals: Any, columns: int, used: int, estimates: Any, samples: Any, reasons: Any
) -> None:
    """A thread takes a variant and a trait."""
    traits = totals.shape[0]
    place = cuda.grid(1)
    if place >= moments.shape[1] * traits:
        return
    variant, trait = place // traits, place % traits
    left = crossed[1, variant, trait]
    n = used if used else int(moments[0, variant])
    df = n - columns - 1
    flat = left <= 64.0 * ROUNDING * totals[trait]
    numbers = moments[0, variant], moments[2, variant], moments[3, variant]
    reason = reason_of(numbers, (own[0, variant], own[1, variant]), flat, df)
    beta = error = np.nan
    if reason == FINE:
        beta = crossed[0, variant, trait] / own[0, variant]
        # What rounding leaves of a perfect fit is no residual: it stays at the size of the rounding, and t finite.
        error = math.sqrt(max(left - beta * crossed[0, variant, trait], ROUNDING * left) / df / own[0, variant])
    estimates[0, variant, trait] = beta
    estimates[1, variant, trait] = error
    estimates[2, variant, trait] = beta / error
    reasons[variant, trait] = reason
    if trait == 0:
        samples[0, variant] = n
        samples[1, variant] = df


def _estimate_linear(
    moments: Any, own: Any, crossed: Any, totals: Any, columns: int, used: int, estimates: Any, samples: Any, reasons: Any
) -> None:
    called, squares = moments[0], moments[2]
    samples[0] = used or called
    samples[1] = samples[0] - columns - 1
    reasons[:] = np.where(crossed[1] <= 64 * ROUNDING * totals, FLAT, FINE)
    reasons[own[0] <= COLLINEAR_BELOW * squares] = COLLINEAR
    reasons[~(own[1] > COLLINEAR_BELOW)] = COVARIATES
    reasons[squares <= moments[3]] = MONOMORPHIC
    reasons[(samples[1] < 1) | (called == 0)] = TOO_FEW
    fine = reasons == FINE
    genotype, freedom = np.where(fine, own[0][:, None], 1.0), np.maximum(samples[1], 1)[:, None]
    beta = crossed[0] / genotype
    rest = np.where(fine, np.maximum(crossed[1] - beta * crossed[0], ROUNDING * crossed[1]), 1.0)
    error = np.sqrt(rest / freedom / genotype)
    for place, values in enumerate((beta, error, beta / error)):
        estimates[place] = np.where(fine, values, np.nan)


estimates = DeviceKernel(
    estimate_linear,
    "float64[:,::1] float64[:,::1] float64[:,:,::1] float64[::1] int64 int64 float64[:,:,::1] int64[:,::1] uint8[:,::1]",
    _estimate_linear,
    128,
    (reason_of,),
)
"""Write beta, standard error and t, `float64[3, v, t]`, n and degrees of freedom, `int64[2, v]`, and reasons, `uint8[v, t]`.

From moments (`device.centred`), `own` and `crossed` (`device.explained`), r'r, and the columns; `used` is n where missing samples stay,
else 0. A thread for each variant and trait.
"""


def associate_on_device(block: GenotypeBlock, design: Design, missing: Missing) -> Association:
    """What `associate` gives, of CuPy arrays and a design beside them."""
    found = Association.empty(len(block), design.residuals.shape[1], block.xp)
    values = design.values()
    totals = (design.residuals**2).sum(axis=0)
    # A genotype's number, its products, and what is made of each trait.
    bytes_per_variant = 8 * (block.n_samples + values.shape[1] + 5 * len(totals))
    for rows in variant_blocks(len(block), bytes_per_variant, block_bytes(block.array, BLOCK_BYTES)):
        part = _block(block.part(rows), design, (values, totals), missing)
        if rows == slice(0, len(block)):
            return part
        for field in fields(Association):
            getattr(found, field.name)[rows] = getattr(part, field.name)
    return found


def _block(block: GenotypeBlock, design: Design, shared: tuple[Any, Any], missing: Missing) -> Association:
    xp, (values, totals), traits = design.xp, shared, len(shared[1])
    genotypes = centred(block, design.mask, design.used)
    leave = design.mask if missing == "complete_case" else xp.zeros_like(design.mask)
    product = genotypes.dense @ values[:-1]
    left = explained((genotypes.calls, genotypes.moments[SQUARES]), leave, (values, values), product, totals, relative=False)
    numbers, reasons = xp.empty((3, len(block), traits)), xp.empty((len(block), traits), xp.uint8)
    samples = xp.empty((2, len(block)), xp.int64)
    used = 0 if missing == "complete_case" else design.used
    arguments = genotypes.moments, left.own, left.crossed, totals, design.columns, used, numbers, samples, reasons
    estimates(blocks_for(reasons.size, estimates.threads), *arguments)
    return Association(numbers[0], numbers[1], numbers[2], samples[0], samples[1], genotypes.moments[FREQUENCY], reasons)
