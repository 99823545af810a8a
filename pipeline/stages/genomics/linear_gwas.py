"""Linear association of every variant with one or several traits, adjusted for covariates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import StageError
from pipeline.kernels.audit import Again, Genotype, linear_again, projected_again
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.linear_regression import REASONS, Missing, associate
from pipeline.kernels.p_values import significant, significant_z
from pipeline.kernels.predicted_scan import PredictedAssociation, PredictedDesign, associate_predicted, student_t
from pipeline.stages.genomics._calibrated import CalibratedScan, NullResults
from pipeline.stages.genomics._calibration import predicted_with_nulls, with_nulls
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._sheet import Sheet
from pipeline.tables.part import Schema
from pipeline.tables.rounds import go_on


class LinearGwas(CalibratedScan, name="linear_gwas", version=2):
    """Test every variant for an effect on each trait, by linear regression with covariates and intercept.

    The effect allele is ALT. People are matched by sample_id, so the sheet may be in any order and hold others; a person with no row, or
    with a missing trait or covariate, is left out. Complete case by default: per variant the people with a call (as PLINK does). Columns
    are those of GWAS-SSF, and trait, statistic (t), test, reason (why there is no result).

    Unrelated people are assumed, unless `predictions` of a whole_genome_regression are read, too: then each chromosome's variants are
    tested with what all others leave of the traits, as regenie's step 2 does. Everyone with all covariates, a trait and its predictions is
    used for that trait, missing calls are the mean, test is chi_square and statistic the root of it, with beta's sign. X is tested as
    autosomes are; Y and MT, of which there are no predictions, have no result. With `p: t` it is Student's t of the regression.

    Sex chromosomes as in PLINK 2: on X males count 0 or 2 (in the frequency too), sex is a covariate unless it is one already, and people
    of unknown sex are left out; on Y, males alone; on Y and MT two copies written are one, and a heterozygous call is half; XY (PAR) is
    as the autosomes are. Where dominant or recessive is asked for, Y and MT have no result. Dosages are used where there are some.

    `calibrate: 100` lets null traits ride along: a trait's residuals, permuted among its people and freed of the covariates again. On the
    autosomes NAME.calibration says how often p <= 0.05, 0.01, 1e-3, 1e-4 and 5e-8 is found where there is nothing, by the minor allele's
    frequency, with an interval of 95 %, and genomic control's lambda of the null traits and of the trait. Permuting makes relatives
    strangers: it shows what outliers and rare alleles do to the test, not what kinship does. It holds 8 bytes a person and null trait.

    Example:
        {use: linear_gwas, from: {genotypes: passed, samples: people}, as: gwas, traits: [ldl], covariates: [age, sex, pc1, pc2]}
    """

    tests = ("linear", "chi_square", "t")
    reasons = REASONS

    missing: Missing = Field(
        "complete_case", description="What a missing call means: the person is left out for that variant, or gets its mean."
    )

    p: Literal["chi_square", "t"] = Field(
        "chi_square",
        description="With predictions: the effect over its standard error under no effect is taken as normal (chi_square, as regenie), "
        "or that of the regression as Student's t (t).",
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait, and the calibration. Raises StageError where `p` does not go with what is read."""
        if self.p == "t" and "predictions" not in schemas:
            raise StageError("without predictions the test is Student's t already. Leave p out.", key="p")
        return super().outputs(schemas)

    def with_nulls(self, model: Design, seed: int) -> Design:
        """The design with each trait before its null traits."""
        return with_nulls(model, self.calibrate, seed)

    def null_results(self, block: GenotypeBlock, model: Design | PredictedDesign, seed: int) -> Iterator[NullResults]:
        """Some variants at a time."""
        here = (predicted_with_nulls(model, self.calibrate, seed) if isinstance(model, PredictedDesign) else model).beside(block.array)
        traits, each = list(here.trait_names[:: 1 + self.calibrate]), 1 + self.calibrate
        step = max(1, self.results_at_once // len(here.trait_names))
        for start in range(0, len(block), step):
            go_on()
            some = block.part(slice(start, start + step))
            if not isinstance(here, PredictedDesign):
                found = associate(some, here, self.missing)
                yield NullResults(
                    traits, *(to_host(array) for array in (found.statistic, found.effect_allele_frequency, found.degrees_of_freedom))
                )
                continue
            scored, freedom = self._scored(some, here)
            statistic, frequency = to_host(scored.statistic), to_host(scored.effect_allele_frequency)
            df = np.full(statistic.shape[1], np.inf) if freedom is None else to_host(freedom)
            for trait, column in enumerate(range(0, statistic.shape[1], each)):
                own = statistic[:, column : column + each], frequency[:, column]
                yield NullResults([traits[trait]], *own, np.full(len(some), df[column], float))

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        design = Design.build(np.zeros((4, 0)), np.eye(4)[:, :1])
        significant(associate(GenotypeBlock(np.zeros((0, 1), np.uint8), None, 4), design, self.missing).statistic, np.zeros(0), self.max_p)

    def build(self, sheet: Sheet) -> Design:
        """Covariates made orthonormal, traits made residuals."""
        return Design.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names)

    def build_predicted(self, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]]) -> PredictedDesign:
        """Covariates made orthonormal, traits made residuals."""
        return PredictedDesign.build(covariates, traits, names)

    def test(self, block: GenotypeBlock, model: Design | PredictedDesign) -> ScanRows:
        """Every variant of a small block with every trait of the design."""
        if isinstance(model, PredictedDesign):
            return self._predicted(block, model)
        found = associate(block, model, self.missing)
        variant, trait, p_value, neg_log_10_p = significant(found.statistic, found.degrees_of_freedom, self.max_p)
        own = {"p_value": p_value, "neg_log_10_p_value": neg_log_10_p, "test": block.xp.zeros(len(trait), block.xp.uint8)}
        return ScanRows.of(variant, trait, vars(found), **own)

    def _predicted(self, block: GenotypeBlock, model: PredictedDesign) -> ScanRows:
        scored, freedom = self._scored(block, model)
        variant, trait, p_value, neg_log_10_p = significant_z(scored.statistic, self.max_p, freedom)
        test = block.xp.full(len(trait), self.tests.index(self.p), block.xp.uint8)
        return ScanRows.of(variant, trait, vars(scored), p_value=p_value, neg_log_10_p_value=neg_log_10_p, test=test)

    def _scored(self, block: GenotypeBlock, model: PredictedDesign) -> tuple[PredictedAssociation, Array | None]:
        """The associations, and their degrees of freedom where the test is Student's."""
        scored = associate_predicted(block, model)
        if self.p == "chi_square":
            return scored, None
        freedom = model.people - model.basis.shape[1] - 1
        return student_t(scored, freedom), freedom

    def again(self, genotype: Genotype, sheet: Sheet, place: int, test: str) -> Again:
        """Least squares of one variant, by QR."""
        covariates, trait = sheet.covariates, sheet.traits[:, place]
        if test != "linear":
            return projected_again(genotype.counted, covariates, trait, fitted=test == "t")
        return linear_again(genotype.counted, covariates, trait, mean=self.missing == "mean")
