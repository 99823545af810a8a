"""Cox regression of times to an event on every variant, adjusted for covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.kernels.audit import Again, Genotype
from pipeline.kernels.cox_again import cox_again
from pipeline.kernels.cox_design import CoxDesign, CoxModels
from pipeline.kernels.cox_scan import CoxMethod, associate_times
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.logistic_regression import TESTS
from pipeline.kernels.logistic_scan import LogisticAssociation
from pipeline.kernels.logistic_score import REASONS
from pipeline.stage import ColumnName, Share
from pipeline.stages.genomics._audited import Audit
from pipeline.stages.genomics._predicted_scan import PredictedScan
from pipeline.stages.genomics._predictions import PredictedTraits, Stretch
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._scan import FittedTraits
from pipeline.stages.genomics._sheet import SEX, Sheet, sheet_columns
from pipeline.stages.genomics._survival import TimeToEvent, columns_of, signed, with_traits
from pipeline.tables.part import Part, Schema


class CoxGwas(PredictedScan, name="cox_gwas", version=1):
    """Test every variant for an effect on how soon events come, by Cox's proportional hazards with covariates.

    A trait is a time and whether it ended with the event (1) or the person was only seen so far (0, censored). beta is the log hazard
    ratio for one more ALT allele, statistic is z. Every variant gets the score test: of the martingale residuals of the Cox model without
    it, with their variance (beta is U / V, standard_error 1 / sqrt(V)), as regenie's step 2 does. With `firth_approximate` those whose
    p-value is at most `screen` get one parameter, of the genotype less what the covariates explain of it, about Firth's fit of these, by
    likelihood ratio; rare events and rare alleles want it. Ties are Breslow's; missing calls are the mean.

    People, covariates, sex chromosomes and columns are those of linear_gwas. Unrelated people are assumed, unless `predictions` of a
    whole-genome regression (log hazards that all other chromosomes predict, such as regenie's, format loco) are read, too. Whoever lacks a
    trait is left out of it wholly; regenie counts him in V, so leave him out there (--keep) to compare.

    Example:
        {use: cox_gwas, from: {genotypes: passed, samples: people}, as: gwas, traits: {death: {time: years, event: died}}}
    """

    tests = TESTS
    reasons = REASONS
    results_at_once = 1 << 19

    traits: dict[ColumnName, TimeToEvent] = Field(  # type: ignore[assignment]
        min_length=1, description="Name of a trait: its columns of the samples table, {time: ..., event: ...}."
    )
    method: CoxMethod = Field("score", description="The score test alone, or Firth's likelihood ratio for variants that it finds notable.")
    screen: Share = Field(0.05, description="With firth_approximate: refit the variants whose score test has at most this p-value.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait."""
        return super().outputs({**schemas, "samples": with_traits(schemas["samples"], self.traits)})

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        sex = [pl.col(self.sex).cast(pl.Float64).alias(SEX)] if self.sex else []
        return samples.select("sample_id", *columns_of(self.traits), *sheet_columns(samples, (), self.covariates), *sex)

    def fitted(self, people: Part, rows: Part, audit: Audit) -> FittedTraits:
        """The sheets of the traits that are missing for the same people, and their models of all people."""
        return super().fitted(people, signed(rows, self.traits), audit)

    def predicted(self, people: Part, rows: Part, audit: Audit, stretches: list[Stretch]) -> PredictedTraits:
        """The traits of all people and what was predicted of them."""
        return super().predicted(people, signed(rows, self.traits), audit, stretches)

    def build_predicted(self, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]]) -> CoxDesign:
        """Covariates made orthonormal."""
        return CoxDesign.build(covariates, traits, names, firth=self.method != "score")

    def build(self, sheet: Sheet) -> CoxModels:
        """The models without predictions."""
        return self.build_predicted(sheet.covariates, sheet.traits, (sheet.covariate_names, sheet.trait_names)).less(None)

    def test(self, block: GenotypeBlock, model: CoxModels) -> ScanRows:
        """Every variant of a small block with every trait of the design."""
        found = associate_times(block, model, self.method, self.screen)
        xp = block.xp
        by_trait = {field.name: xp.stack([getattr(one, field.name) for one in found], axis=1) for field in fields(LogisticAssociation)}
        kept = xp.ones(by_trait["p_value"].shape, bool) if self.max_p >= 1 else by_trait["p_value"] <= self.max_p
        variant, trait = xp.nonzero(kept)
        return ScanRows.of(variant, trait, by_trait)

    def results(self, variants: pl.DataFrame, block: GenotypeBlock, fitted: tuple[Sheet, CoxModels, Audit]) -> Part:
        """The rows of a block's variants that `max_p` keeps; an audit has the log hazards of the models."""
        sheet, model, audit = fitted
        traits = np.where(model.known, model.design.times, np.nan)
        known = model.known.any(axis=1)
        sheet = replace(sheet, traits=traits, covariates=np.where(known[:, None], sheet.covariates, np.nan))
        return super().results(variants, block, (replace(sheet, log_odds=(model.log_hazards, model.centres)), model, audit))

    def again(self, genotype: Genotype, sheet: Sheet, place: int, test: str) -> Again:
        """The score, or the likelihood ratio's estimate, of one variant."""
        assert sheet.log_odds is not None
        null, firth = sheet.log_odds
        return cox_again(genotype.counted, sheet.covariates, sheet.traits[:, place], (null[place], firth[place]), test)
