"""Level 0 of whole-genome regression with each person a fold of its own, for cohorts of a few thousand people.

As `ridge_predictors` predicts a fold by the others, by the formula for one row: with G'G = V D V', Z = V'G and a the sum of
z^2 / (d + penalty) over a person's column z of Z, the prediction without them is (fit - a y) / (1 - a).
Allen 1974 (Technometrics 16:125-127).
"""

from __future__ import annotations

from pipeline.backend.arrays import checked_linalg
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.ridge_design import RidgeDesign
from pipeline.kernels.ridge_predictors import COLLINEAR, SHARES, BlockCounts, RidgeFit, as_predictors


def left_out_predictors(block: GenotypeBlock, design: RidgeDesign, variants: int) -> Array:
    """As `ridge_predictors`, each person predicted by all others: `float32[t, h, n]`."""
    return left_out_fit(block, design, variants).predictors


def left_out_fit(block: GenotypeBlock, design: RidgeDesign, variants: int) -> RidgeFit:
    """The same, with the effects `float32[t, 1, h, v]` of the fit to everyone."""
    xp, design = block.xp, design.beside(block.array)
    everyone, of_block = slice(0, block.n_samples), BlockCounts.of(block, design)
    counts = xp.concatenate([some.astype(xp.float64) for _, some in of_block.chunks(everyone)], axis=1)
    left = counts - (counts @ design.basis) @ design.basis.T
    norms = xp.sqrt((left**2).sum(axis=1) / design.freedom)
    norms = xp.where(norms**2 * design.freedom <= COLLINEAR * (counts**2).sum(axis=1), xp.inf, norms)
    left /= norms[:, None]
    with checked_linalg(xp):
        sizes, axes = xp.linalg.eigh(left @ left.T)
    rotated = axes.T @ left
    right = rotated @ design.traits
    found = xp.empty((design.traits.shape[1], len(SHARES), block.n_samples), xp.float32)
    effects = xp.empty((design.traits.shape[1], 1, len(SHARES), len(block)), xp.float32)
    for place, share in enumerate(SHARES):
        shrunk = 1 / (xp.maximum(sizes, 0) + variants * (1 - share) / share)
        own = shrunk @ rotated**2
        fit = (shrunk[:, None] * right).T @ rotated
        found[:, place] = (fit - own * design.traits.T) / (1 - own)
        effects[:, 0, place] = ((axes @ (shrunk[:, None] * right)) * (of_block.signs / norms)[:, None]).T
    return as_predictors(found, effects)
