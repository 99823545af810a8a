"""A scan of variants for a binary trait: the score test of all, and a regression of its own for those that it finds notable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.backend.memory import block_bytes
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import BLOCK_BYTES, Array
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_null import NullModel
from pipeline.kernels.logistic_regression import SCORE, WALD, Method, PValue, Refit, refit, refit_each
from pipeline.kernels.logistic_score import FINE, SEPARATED, UNCONVERGED, score_test
from pipeline.kernels.p_values import z_test_p_values


@dataclass(frozen=True)
class LogisticAssociation:
    """Results of v variants and one trait; NaN where `reason` is not 0."""

    beta: Array
    """`float64[v]`: log odds ratio of one more in the genotype; of the score test U / V, one step of Newton's method from no effect."""
    standard_error: Array
    """`float64[v]`; of the score test 1 / sqrt(V)."""
    statistic: Array
    """`float64[v]`: z, or the signed root of the penalized likelihood ratio."""
    p_value: Array
    neg_log_10_p_value: Array
    n: Array
    """`int64[v]`: called people."""
    effect_allele_frequency: Array
    """`float64[v]`: of ALT among their alleles."""
    test: Array
    """`uint8[v]`: place in `TESTS`."""
    reason: Array
    """`uint8[v]`: place in `REASONS`, 0 where all is well."""


def associate_binary(
    block: GenotypeBlock, design: LogisticDesign, trait: int, method: Method, screen: float, p: PValue = "wald"
) -> LogisticAssociation:
    """Associations of every variant of a block with one trait of the design.

    A variant whose score test has a p-value of at most `screen` gets the regression of `method`; 1 takes all, 0 none. `p` is how Firth's
    are tested.
    """
    design = design.beside(block.array)
    xp = block.xp
    found = score_test(block, design, trait)
    beta, error = found.score / found.information, found.information**-0.5
    statistic, test, reason = beta / error, xp.full(len(block), SCORE, xp.uint8), found.reason.copy()
    if screen > 0:
        notable = reason == FINE
        if screen < 1:
            notable &= z_test_p_values(statistic)[0] <= screen
        rows = xp.nonzero(notable)[0]
        fit = _refitted(block, rows, design.null(trait), (method, p), design.people)
        beta[rows], error[rows], statistic[rows], test[rows] = fit.beta, fit.standard_error, fit.statistic, fit.test
        failure = xp.where(fit.test == WALD, xp.uint8(SEPARATED), xp.uint8(UNCONVERGED))
        reason[rows] = xp.where(xp.isnan(fit.beta), failure, xp.uint8(FINE))
    frequency = found.effect_allele_frequency
    return LogisticAssociation(beta, error, statistic, *z_test_p_values(statistic), found.n, frequency, test, reason)


def _refitted(block: GenotypeBlock, rows: Array, null: NullModel, how: tuple[Method, PValue], people: Array) -> Refit:
    """Regressions of the variants at `rows` on the design's people; a few are unpacked at a time."""

    def unpacked(places: Array) -> Array:
        """Genotypes of some of the variants."""
        genotypes = block.coded(rows[places])
        return genotypes if len(people) == block.n_samples else genotypes[:, people]

    if block.xp is np:
        return refit_each(unpacked, len(rows), null, how)
    step = max(8, block_bytes(block.array, BLOCK_BYTES) // (8 * block.n_samples))
    return Refit.joined([refit(unpacked(slice(start, start + step)), null, *how) for start in range(0, max(1, len(rows)), step)])
