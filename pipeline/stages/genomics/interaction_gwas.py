"""Association of every variant with traits by several terms: interaction with covariates, dominance deviation, and joint tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import ONE_COPY
from pipeline.kernels.audit import Again, Genotype
from pipeline.kernels.design import Design, OfDesign
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.several_terms import REASONS, TermsDesign, associate_terms
from pipeline.stage import ColumnName
from pipeline.stages.genomics._results import NUMBERS, ScanRows
from pipeline.stages.genomics._scan import NOT_DIPLOID, Scan
from pipeline.stages.genomics._sheet import Sheet, is_words
from pipeline.tables.part import Part, Schema

_PAIRS = 2  # of the values of a binary trait


@dataclass(frozen=True)
class TermsModel(OfDesign):
    """A design as the model of a scan."""

    design: TermsDesign

    def beside(self, array: Array) -> TermsModel:
        """The same where an array lives."""
        return replace(self, design=self.design.beside(array))


class InteractionGwas(Scan, name="interaction_gwas", version=1):
    """Test every variant by several terms: products with covariates (gene by environment, by sex), dominance deviation, and all jointly.

    A row per variant, trait and term, which the column test names: additive, the effect of an ALT allele where the covariates are 0;
    dominance_deviation with `genotypic` (1 for a heterozygote, of a dosage d the smaller of d and 2 - d); `additive x COVARIATE` for each
    of `interactions`, and joint, that all are 0, with as many degrees of freedom as there are terms: its statistic is F, of binary traits
    Wald's chi-square, and beta is null. As PLINK 2's --glm interaction and genotypic (whose rows are ADD, DOMDEV, ADDxCOVARIATE, GENO_2DF
    and USER_nDF); without its Firth fallback: a variant without a finite maximum has no result. Complete cases.

    `regression: logistic` is for traits of two values. People, covariates, sex chromosomes and columns are those of linear_gwas; Y and MT
    have no result with `genotypic`. `max_p` is that of the joint test. Results are not computed again by another way.

    Example:
        {use: interaction_gwas, from: {genotypes: passed, samples: people}, as: gwas, traits: [ldl], covariates: [sex], interactions: [sex]}
    """

    reasons = REASONS
    tests: ClassVar[tuple[str, ...]] = ()
    genotypes_at_once: ClassVar[int] = 1 << 22

    interactions: tuple[ColumnName, ...] = Field((), description="Covariates, of numbers, that a variant's effect may depend on.")
    genotypic: bool = Field(False, description="A term of heterozygotes beside that of alleles; the joint test is the genotypic one, 2 df.")
    regression: Literal["linear", "logistic"] = Field("linear", description="linear: quantitative traits; logistic: traits of two values.")

    @model_validator(mode="after")
    def _has_terms(self) -> Self:
        if not self.interactions and not self.genotypic:
            raise ValueError("give interactions, or genotypic: true; linear_gwas and logistic_gwas test alleles alone")
        if missing := [name for name in self.interactions if name not in self.covariates]:
            raise ValueError(f"interactions names {missing[0]!r}, which is no covariate. Name it in covariates, too.")
        if self.genotypic and self.coding != "additive":
            raise ValueError("genotypic is of additive coding")
        return self

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms' names in a design's order, the joint test last."""
        own = ("additive", "dominance_deviation")[: 1 + self.genotypic]
        return (*own, *(f"{name} x {covariate}" for covariate in self.interactions for name in own), "joint")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant, trait and term. Raises StageError for an interaction with words or variants."""
        for name in self.interactions:
            if is_words(schemas["samples"].columns.get(name)):
                why = f"{name!r} is words, and effects are multiplied with numbers. Make it 0 and 1 with derive."
                raise StageError(why, key="interactions")
            if name in schemas["samples"].arrays:
                raise StageError(f"{name!r} is several variants, and effects are multiplied with columns of numbers", key="interactions")
        return super().outputs(schemas)

    def build(self, sheet: Sheet) -> TermsModel:
        """Covariates made orthonormal. Raises DataError for traits that are not of two values, and where no interaction is left."""
        design, used = Design.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names), sheet.complete
        kept = [name for name in self.interactions if name in sheet.covariate_names]
        if lost := [name for name in self.interactions if name not in kept]:
            raise DataError(f"{lost[0]!r} does not vary here, so no effect can depend on it")
        own = np.where(used[:, None], sheet.covariates, 0.0)[:, [sheet.covariate_names.index(name) for name in kept]]
        logistic = self.regression == "logistic"
        traits, basis = self._cases(sheet, used) if logistic else design.residuals, design.values()[:-1, : design.columns]
        shared = TermsDesign(len(used), design.mask, basis, traits, own, self.genotypic, logistic, sheet.trait_names)
        return TermsModel(shared)

    def _cases(self, sheet: Sheet, used: Array) -> Array:
        """Who is a case, `float64[n, t]`: the greater of two values."""
        for name, values in zip(sheet.trait_names, sheet.traits[used].T, strict=True):
            if len(found := np.unique(values)) != _PAIRS:
                raise DataError(f"trait {name!r} has {len(found):,} values, and a logistic regression is of two. Use regression: linear.")
        return np.where(used[:, None], sheet.traits == np.nanmax(np.where(used[:, None], sheet.traits, np.nan), axis=0), 0.0)

    def test(self, block: GenotypeBlock, model: TermsModel) -> ScanRows:
        """Every variant of a small block with every trait, all terms of those that `max_p` keeps."""
        found, xp = associate_terms(block, model.design), block.xp
        kept = xp.ones(found.reason.shape, bool) if self.max_p >= 1 else found.p_value[:, :, -1] <= self.max_p
        variant, trait = xp.nonzero(kept)
        terms = found.beta.shape[2]
        numbers = {name: getattr(found, name)[variant, trait].ravel() for name in NUMBERS if name != "effect_allele_frequency"}
        each = {"variant": xp.repeat(variant, terms), "trait": xp.repeat(trait, terms)}
        numbers["effect_allele_frequency"] = found.effect_allele_frequency[each["variant"]]
        test = xp.tile(xp.arange(terms, dtype=xp.uint8), len(variant))
        reason = found.reason[each["variant"], each["trait"]]
        own = {"n": found.n[each["variant"]], "test": test, "reason": reason, "with_result": (found.reason == 0).sum(axis=0)}
        return ScanRows(**each, numbers=numbers, **own)

    @property
    def test_words(self) -> tuple[str, ...]:
        """The terms."""
        return self.terms

    def _untestable(self, kind: str, sheet: Sheet) -> str | None:
        return NOT_DIPLOID if self.genotypic and kind in ONE_COPY else super()._untestable(kind, sheet)

    def without(self, variants: pl.DataFrame, traits: tuple[str, ...], reason: str) -> Part:
        """A row for every term."""
        rows = super().without(variants, traits, reason)
        return Part(pl.concat([rows.frame.with_columns(test=pl.lit(self._test_name(i))) for i in range(len(self.terms))]))

    def again(self, genotype: Genotype, sheet: Sheet, place: int, test: str) -> Again:
        """None."""
        return Again(np.nan, np.nan, 0)
