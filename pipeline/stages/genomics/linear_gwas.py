"""Linear association of every variant with one or several traits, adjusted for covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import StageError
from pipeline.genome.chromosomes import HUMAN, chromosome_key, chromosome_kind
from pipeline.kernels.audit import Again, linear_again, projected_again
from pipeline.kernels.design import Design
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.linear_regression import REASONS, Missing, associate
from pipeline.kernels.p_values import significant, significant_z
from pipeline.kernels.predicted_scan import PredictedAssociation, PredictedDesign, associate_predicted, student_t
from pipeline.stage import Context, Outcome
from pipeline.stages.genomics._calibration import TABLE as CALIBRATION
from pipeline.stages.genomics._calibration import Tally, predicted_with_nulls, with_nulls
from pipeline.stages.genomics._predicted_scan import PredictedScan
from pipeline.stages.genomics._predictions import PredictedTraits
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._scan import FittedTraits
from pipeline.stages.genomics._sheet import Sheet
from pipeline.tables.part import Part, Schema
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table


class LinearGwas(PredictedScan, name="linear_gwas", version=2):
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
    calibrate: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Null traits beside each trait, whose results are counted in NAME.calibration; 100 is a good number.",
    )

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait, and the calibration where it is asked for."""
        if self.p == "t" and "predictions" not in schemas:
            raise StageError("without predictions the test is Student's t already. Leave p out.", key="p")
        return super().outputs(schemas) | ({"calibration": Schema(pl.Schema(CALIBRATION))} if self.calibrate else {})

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The genotypes are held where they are read for null traits, too, and are dear."""
        genotypes = tables["genotypes"]
        return super().run(tables if genotypes.cheap or not self.calibrate else {**tables, "genotypes": genotypes.hold()}, context)

    def more(self, genotypes: Table, fitted: Any, context: Context) -> dict[str, Table]:
        """The calibration."""
        if not self.calibrate:
            return {}
        ready = context.session.submit(self.ready, fitted, context.seed, stage=context.name)
        tally = genotypes.reduce(self.tallied, Tally.together, ready, context.seed)
        calibration = context.session.submit(_calibration, tally, self.traits, stage=context.name)
        return {"calibration": Table.of(context.session, context.name, [calibration])}

    def ready(self, fitted: FittedTraits | PredictedTraits, seed: int) -> FittedTraits | PredictedTraits:
        """The models with their null traits, made once; where there are predictions each chromosome has its own."""
        if isinstance(fitted, PredictedTraits):
            return fitted
        return replace(fitted, models=[with_nulls(model, self.calibrate, seed) for model in fitted.models])

    def tallied(self, part: Part, fitted: FittedTraits | PredictedTraits, seed: int) -> Tally:
        """What the null traits of a part's autosomal variants pass."""
        found, autosomes = Tally.empty(len(self.traits), self.calibrate), fitted.autosomes or HUMAN
        keys = part.frame.select(kind=chromosome_kind(autosomes=autosomes), key=chromosome_key(autosomes=autosomes)).with_row_index("row")
        for (key,), rows in keys.filter(kind="autosome").group_by("key", maintain_order=True):
            for model in self._null_models(fitted, str(key), seed):
                _, block = self.piece(part, rows["row"].to_numpy().astype("int64"), "", len(model.residuals))
                traits = [self.traits.index(name) for name in model.trait_names[:: 1 + self.calibrate]]
                self._tally(found, block, model, traits)
        return found

    def _null_models(self, fitted: FittedTraits | PredictedTraits, key: str, seed: int) -> Sequence[Design | PredictedDesign]:
        """The models of a chromosome with their null traits."""
        if isinstance(fitted, PredictedTraits):
            design = fitted.less(key)
            return [predicted_with_nulls(design, self.calibrate, seed)] if isinstance(design, PredictedDesign) else []
        return fitted.models

    def _tally(self, tally: Tally, block: GenotypeBlock, model: Design | PredictedDesign, traits: list[int]) -> None:
        """Count a block's results, some variants at a time."""
        here = model.beside(block.array)
        step = max(1, self.results_at_once // len(model.trait_names))
        for start in range(0, len(block), step):
            go_on()
            some = block.part(slice(start, start + step))
            if isinstance(here, PredictedDesign):
                scored, freedom = self._scored(some, here)
                statistic, frequency = to_host(scored.statistic), to_host(scored.effect_allele_frequency)
                df = np.full(statistic.shape[1], np.inf) if freedom is None else to_host(freedom)
                for trait, column in enumerate(range(0, statistic.shape[1], 1 + self.calibrate)):
                    own = statistic[:, column : column + 1 + self.calibrate]
                    tally.add([traits[trait]], own, frequency[:, column], np.full(len(some), df[column], float))
            else:
                found = associate(some, here, self.missing)
                tally.add(traits, to_host(found.statistic), to_host(found.effect_allele_frequency), to_host(found.degrees_of_freedom))

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

    def again(self, genotype: Array, sheet: Sheet, place: int, test: str) -> Again:
        """Least squares of one variant, by QR."""
        covariates, trait = sheet.covariates, sheet.traits[:, place]
        if test != "linear":
            return projected_again(genotype, covariates, trait, fitted=test == "t")
        return linear_again(genotype, covariates, trait, mean=self.missing == "mean")


def _calibration(tally: Tally, traits: Sequence[str]) -> Part:
    return Part(tally.frame(traits))
