"""Logistic association of every variant with one or several binary traits, adjusted for covariates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import StageError
from pipeline.kernels.audit import Again, Genotype, logistic_again
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import MISSING, Array, pack
from pipeline.kernels.logistic_design import LogisticDesign
from pipeline.kernels.logistic_regression import TESTS, Method, PValue
from pipeline.kernels.logistic_scan import LogisticAssociation, associate_binary
from pipeline.kernels.logistic_score import REASONS
from pipeline.kernels.offset_again import offset_again
from pipeline.kernels.predicted_binary import PredictedMethod, associate_predicted_binary
from pipeline.kernels.predicted_binary_design import PredictedBinary, PredictedBinaryDesign
from pipeline.stage import Share
from pipeline.stages.genomics._binary_nulls import binary_with_nulls, null_models
from pipeline.stages.genomics._calibrated import CalibratedScan, Fitted, NullResults
from pipeline.stages.genomics._calibration import Tally
from pipeline.stages.genomics._predictions import PredictedTraits
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._sheet import Sheet
from pipeline.tables.part import Part, Schema
from pipeline.tables.rounds import go_on


class LogisticGwas(CalibratedScan, name="logistic_gwas", version=4):
    """Test every variant for an effect on each binary trait, by logistic regression with covariates and intercept.

    A trait is 0 and 1, 1 and 2 (case), or true and false. beta is the log odds ratio for one more ALT allele, statistic is z. Every variant
    gets the score test; one with a p-value of at most `screen` gets a regression, and the column test says what a row carries: score,
    wald, firth or firth_lrt. In a score row beta is U / V and standard_error 1 / sqrt(V). Complete case: per variant the people with a
    call; the score test takes the covariates' effects to them by one step of Newton's method. Firth's standard errors are PLINK 2.00a3's.

    People, covariates, sex chromosomes and columns are those of linear_gwas. Unrelated people are assumed, unless `predictions` of a
    whole_genome_regression of kind binary are read, too: then each chromosome's variants are tested as regenie's step 2 does, about the
    log odds that all others predict. Missing calls are the mean. The regression is firth_approximate by default, of the genotype less what
    the covariates explain of it, about Firth's fit of these, by likelihood ratio; firth and wald fit the covariates anew for each variant,
    with the predictions as offset (firth by likelihood ratio); spa is the saddle point of the score.

    `calibrate: 100` lets null traits ride along: as many cases, drawn by the chances that the model without a variant gives each person,
    tested as the trait is, refits and all; so it takes as long as that many more traits. On the autosomes NAME.calibration says how often
    p <= 0.05, 0.01, 1e-3, 1e-4 and 5e-8 is found where there is nothing, by the trait's share of cases and the minor allele's frequency.

    Example:
        {use: logistic_gwas, from: {genotypes: passed, samples: people}, as: gwas, traits: [diabetes], covariates: [age, sex, pc1, pc2]}
    """

    tests = TESTS
    reasons = REASONS
    results_at_once = 1 << 19  # three arrays of float64 are 12 MB

    method: Literal[Method, PredictedMethod] | None = Field(
        None,
        description="The regression: maximum likelihood (wald), Firth's penalized one (firth), or Firth's where the first has no finite "
        "maximum (firth_fallback, the default). With predictions: firth_approximate (the default), firth, wald, spa, or the score "
        "test alone (score).",
    )
    p: PValue = Field(
        "wald",
        description="How Firth's rows are tested: beta over its standard error (wald, as PLINK), or the penalized likelihood ratio "
        "(lrt, as EPACTS and regenie), whose test is firth_lrt and whose statistic is the signed root.",
    )
    screen: Share = Field(0.05, description="Refit the variants whose score test has at most this p-value; 1 refits all, 0 none.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait. Raises StageError where the method does not go with what is read."""
        predicted = "predictions" in schemas
        fit = get_args(PredictedMethod if predicted else Method)
        if self.method is not None and self.method not in fit:
            which = "does not take predictions" if predicted else "needs predictions of a whole_genome_regression"
            raise StageError(f"{self.method} {which}. Choose one of {', '.join(fit)}.", key="method")
        if predicted and self.p == "lrt":
            raise StageError("with predictions Firth's rows are tested by the likelihood ratio already. Leave p out.", key="p")
        if self.p == "lrt" and self.method == "wald":
            raise StageError(
                "the likelihood ratio tests Firth's rows, and method: wald gives none; choose firth or firth_fallback", key="p"
            )
        return super().outputs(schemas)

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        design = LogisticDesign.build(np.empty((6, 0)), np.array([[0.0], [1], [0], [1], [0], [1]]))
        block = GenotypeBlock(pack(np.array([[0, 1, 1, 2, 0, MISSING]], np.uint8)), None, 6)
        for method in get_args(Method)[:2]:
            if self.method in {None, method, "firth_fallback"}:
                associate_binary(block, design, 0, method, 1, self.p)

    @property
    def _method(self) -> Method:
        """Where no predictions are read."""
        return "firth_fallback" if self.method is None else cast("Method", self.method)

    @property
    def _predicted(self) -> PredictedMethod:
        """Where they are."""
        return "firth_approximate" if self.method is None else cast("PredictedMethod", self.method)

    def build_predicted(self, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]]) -> PredictedBinaryDesign:
        """Covariates made orthonormal."""
        return PredictedBinaryDesign.build(covariates, traits, names, firth=self._predicted == "firth_approximate")

    def build(self, sheet: Sheet) -> LogisticDesign:
        """Covariates made orthonormal, and each trait's null model."""
        return LogisticDesign.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names)

    def test(self, block: GenotypeBlock, model: LogisticDesign | PredictedBinary) -> ScanRows:
        """Every variant of a small block with every trait of the design."""
        if isinstance(model, PredictedBinary):
            found = self._tested(block, model)
        else:
            found = self._each(block, model, range(len(model.trait_names)))
        by_trait = {field.name: _side_by_side([getattr(one, field.name) for one in found]) for field in fields(LogisticAssociation)}
        kept = block.xp.ones(by_trait["p_value"].shape, bool) if self.max_p >= 1 else by_trait["p_value"] <= self.max_p
        variant, trait = block.xp.nonzero(kept)
        return ScanRows.of(variant, trait, by_trait)

    def _tested(self, block: GenotypeBlock, model: PredictedBinary) -> list[LogisticAssociation]:
        return associate_predicted_binary(block, model, self._predicted, self.screen)

    def _each(self, block: GenotypeBlock, model: LogisticDesign, traits: Iterable[int]) -> list[LogisticAssociation]:
        return [associate_binary(block, model, trait, self._method, self.screen, self.p) for trait in traits]

    def _in_steps(self, block: GenotypeBlock, test: Callable[[GenotypeBlock], list[LogisticAssociation]]) -> list[tuple[Any, Any]]:
        """Statistics and frequencies `float64[v]` of what is tested, on the host; some variants at a time."""
        step, found = max(1, self.genotypes_at_once // max(1, block.n_samples)), list[list[tuple[Any, Any]]]()
        for start in range(0, max(1, len(block)), step):
            go_on()
            some = test(block.part(slice(start, start + step)))
            found.append([(to_host(one.statistic), to_host(one.effect_allele_frequency)) for one in some])
        return [(np.concatenate([a for a, _ in of_one]), np.concatenate([b for _, b in of_one])) for of_one in zip(*found, strict=True)]

    def with_nulls(self, model: LogisticDesign, seed: int) -> LogisticDesign:
        """The design with each trait before its null traits."""
        return binary_with_nulls(model, self.calibrate, seed)

    def null_results(self, block: GenotypeBlock, model: LogisticDesign | PredictedBinary, seed: int) -> Iterator[NullResults]:
        """Trait by trait, some variants at a time."""
        each = 1 + self.calibrate
        traits = model.trait_names if isinstance(model, PredictedBinary) else model.trait_names[::each]
        of_all = self._in_steps(block, partial(self._tested, model=model)) if isinstance(model, PredictedBinary) else []
        for place, trait in enumerate(traits):
            if isinstance(model, PredictedBinary):
                nulls = null_models(model, place, self.calibrate, seed)
                found = [of_all[place], *(one for some in nulls for one in self._in_steps(block, partial(self._tested, model=some)))]
            else:
                own = partial(self._each, model=model, traits=range(place * each, (place + 1) * each))
                found = self._in_steps(block, own)
            statistic = np.stack([one for one, _ in found], axis=1)
            yield NullResults([trait], statistic, found[0][1], np.full(len(block), np.inf))

    def calibration_schema(self) -> dict[str, pl.DataType]:
        """The share of cases, too."""
        return {"trait": pl.String(), "case_share": pl.Float64()} | super().calibration_schema()

    def calibration(self, tally: Tally, fitted: Fitted) -> Part:
        """The share of cases, too."""
        if isinstance(fitted, PredictedTraits):
            design = cast("PredictedBinaryDesign", fitted.design)
            shares = dict(zip(design.trait_names, design.cases.sum(axis=0) / design.people, strict=True))
        else:
            shares = {name: (own > 0).mean() for model in fitted.models for name, own in zip(model.trait_names, model.signs, strict=True)}
        share = pl.col("trait").replace_strict(shares, return_dtype=pl.Float64)
        return Part(super().calibration(tally, fitted).frame.with_columns(case_share=share).select(*self.calibration_schema()))

    def again(self, genotype: Genotype, sheet: Sheet, place: int, test: str) -> Again:
        """The score, or Newton's method, of one variant."""
        covariates, trait = sheet.covariates, sheet.traits[:, place]
        if sheet.log_odds is not None:
            null, firth = sheet.log_odds
            return offset_again(genotype, covariates, trait, (null[place], firth[place]), test)
        return logistic_again(genotype.counted, covariates, np.where(np.isnan(trait), trait, trait == np.nanmax(trait)), test)


def _side_by_side(columns: list[Array]) -> Array:
    """`[v, t]` of t arrays `[v]`."""
    return columns[0][:, None] if len(columns) == 1 else array_module(columns[0]).stack(columns, axis=1)
