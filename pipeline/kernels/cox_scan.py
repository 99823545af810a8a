"""Tests of every variant of a block with times to an event: the score of a Cox model, and Firth's likelihood ratio.

With M the martingale residuals of the Cox model without a variant (and with what other chromosomes predict, where that is given), H the
hazards, and Z intercept and covariates made orthonormal under H, the genotype g (missing ones the mean of those used) less what the
covariates explain of it is a = g - Z'ZHg: U = g'M, and V = a'a times the variance of M, as regenie's step 2 has it and SPACox (Bi et al.
2020, American Journal of Human Genetics 107:222-233) before its saddle point. beta = U / V, and z = U / sqrt(V).

Whoever `screen` finds notable is tested again by Firth's likelihood ratio of a about the log hazards of Firth's own fit of the covariates.
"""

from __future__ import annotations

from typing import Literal

from pipeline.backend.memory import block_bytes
from pipeline.kernels.cox_design import CoxModels
from pipeline.kernels.cox_firth import cox_likelihood_ratio
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, variant_blocks
from pipeline.kernels.logistic_regression import FIRTH_APPROXIMATE, SCORE
from pipeline.kernels.logistic_scan import LogisticAssociation
from pipeline.kernels.logistic_score import COLLINEAR, COLLINEAR_BELOW, FINE, MONOMORPHIC, TOO_FEW, UNCONVERGED
from pipeline.kernels.mean_genotypes import MeanGenotypes
from pipeline.kernels.p_values import z_test_p_values
from pipeline.kernels.whole_columns import Columns

CoxMethod = Literal["score", "firth_approximate"]


def associate_times(block: GenotypeBlock, models: CoxModels, method: CoxMethod, screen: float) -> list[LogisticAssociation]:
    """Associations of every variant of a block with each trait; beta is a log hazard ratio.

    A variant whose score test has p <= `screen` gets `method`. Raises ValueError where the numbers of people differ.
    """
    models, xp = models.beside(block.array), block.xp
    design = models.design
    if len(design.basis) != block.n_samples:
        raise ValueError(f"The design is of {len(design.basis)} people, the genotypes are of {block.n_samples}.")
    genotypes = MeanGenotypes.of(block, design.mask, design.known.any(axis=1))
    k, copies, called = design.basis.shape[1], {}, {}
    columns = xp.concatenate([models.whitened * models.hazards[:, None], models.whitened, models.residuals[:, None]], axis=1)
    of_all = Columns(columns.reshape(-1, block.n_samples).T), Columns(design.known.astype(columns.dtype), power=2)
    products, squares = genotypes.products(*of_all)
    products = products.reshape(len(block), len(design.trait_names), 2 * k + 1)
    for group, mask in zip(design.groups, design.masks, strict=True):
        alleles = block.alleles(mask)
        for trait in group:
            copies[trait], called[trait] = alleles
    found = []
    for trait, whitened in enumerate(models.whitened):
        explained, cross, score = products[:, trait, :k], products[:, trait, k:-1], products[:, trait, -1]
        left = squares[:, trait] - 2 * (explained * cross).sum(axis=1) + ((explained @ (whitened @ whitened.T)) * explained).sum(axis=1)
        reason = xp.full(len(block), FINE, xp.uint8)
        reason[left <= COLLINEAR_BELOW * squares[:, trait]] = COLLINEAR
        reason[~genotypes.varies] = MONOMORPHIC
        reason[called[trait] == 0] = TOO_FEW
        information = xp.where(reason == FINE, left * models.variances[trait], xp.nan)
        scored = (score, information, explained, reason)
        found.append(_tested(genotypes, models, (trait, scored), (copies[trait], called[trait]), (method, screen)))
    return found


def _tested(
    genotypes: MeanGenotypes,
    models: CoxModels,
    of: tuple[int, tuple[Array, Array, Array, Array]],
    alleles: tuple[Array, Array],
    how: tuple[CoxMethod, float],
) -> LogisticAssociation:
    """The results of one trait from its score, information, what covariates explain, and reasons."""
    (trait, (score, information, explained, reason)), (copies, called), (method, screen) = of, alleles, how
    block, xp = genotypes.block, genotypes.block.xp
    beta, error = score / information, information**-0.5
    statistic = beta / error
    p_value, neg_log_10 = z_test_p_values(statistic)
    test = xp.full(len(block), SCORE, xp.uint8)
    notable = xp.nonzero((reason == FINE) & (p_value <= screen))[0] if method != "score" and screen > 0 else xp.empty(0, xp.int64)
    risk, whitened = models.risks[trait], models.whitened[trait]
    for some in variant_blocks(len(notable), 96 * block.n_samples, block_bytes(block.array, BLOCK_BYTES)):
        rows = notable[some]
        adjusted = (genotypes.dense(rows=rows) - explained[rows] @ whitened)[:, risk.order]
        one = cox_likelihood_ratio(adjusted, models.centres[trait][risk.order], risk, beta[rows])
        beta[rows], error[rows], statistic[rows] = one.beta, one.standard_error, xp.sign(one.beta) * xp.sqrt(one.chi_square)
        p_value[rows], neg_log_10[rows] = z_test_p_values(statistic[rows])
        test[rows], reason[rows] = FIRTH_APPROXIMATE, xp.where(xp.isnan(one.beta), xp.uint8(UNCONVERGED), xp.uint8(FINE))
    frequency = copies / 2 / xp.where(called > 0, called, xp.nan)
    return LogisticAssociation(beta, error, statistic, p_value, neg_log_10, called.astype(xp.int64), frequency, test, reason)
