"""Linear association of every variant with one or several traits, adjusted for covariates."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pipeline.kernels.audit import Again, linear_again
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.linear_regression import REASONS, Missing, associate
from pipeline.kernels.p_values import significant
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._scan import Scan
from pipeline.stages.genomics._sheet import Sheet


class LinearGwas(Scan, name="linear_gwas", version=2):
    """Test every variant for an effect on each trait, by linear regression with covariates and intercept.

    The effect allele is ALT. People are matched by sample_id, so the sheet may be in any order and hold others; a person with no row, or
    with a missing trait or covariate, is left out. Complete case by default: per variant the people with a call (as PLINK does). Columns
    are those of GWAS-SSF, and trait, statistic (t), test, reason (why there is no result). Unrelated people are assumed.

    Sex chromosomes as in PLINK 2: on X males count 0 or 2 (in the frequency too), sex is a covariate unless it is one already, and people
    of unknown sex are left out; on Y, males alone; on Y and MT two copies written are one, and a heterozygous call is half; XY (PAR) is
    as the autosomes are. Where dominant or recessive is asked for, Y and MT have no result. Dosages are used where there are some.

    Example:
        {use: linear_gwas, from: {genotypes: passed, samples: people}, as: gwas, traits: [ldl], covariates: [age, sex, pc1, pc2]}
    """

    tests = ("linear",)
    reasons = REASONS

    missing: Missing = Field(
        "complete_case", description="What a missing call means: the person is left out for that variant, or gets its mean."
    )

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        design = Design.build(np.zeros((4, 0)), np.eye(4)[:, :1])
        significant(associate(GenotypeBlock(np.zeros((0, 1), np.uint8), None, 4), design, self.missing).statistic, np.zeros(0), self.max_p)

    def build(self, sheet: Sheet) -> Design:
        """Covariates made orthonormal, traits made residuals."""
        return Design.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names)

    def test(self, block: GenotypeBlock, model: Design) -> ScanRows:
        """Every variant of a small block with every trait of the design."""
        found = associate(block, model, self.missing)
        variant, trait, p_value, neg_log_10_p = significant(found.statistic, found.degrees_of_freedom, self.max_p)
        own = {"p_value": p_value, "neg_log_10_p_value": neg_log_10_p, "test": block.xp.zeros(len(trait), block.xp.uint8)}
        return ScanRows.of(variant, trait, vars(found), **own)

    def again(self, genotype: Array, covariates: Array, trait: Array, test: str) -> Again:
        """Least squares of one variant, by QR."""
        return linear_again(genotype, covariates, trait, mean=self.missing == "mean")
