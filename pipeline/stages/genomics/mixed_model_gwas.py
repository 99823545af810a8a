"""Association of every variant with a trait among relatives and inbred lines: an exact linear mixed model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, autosomes_of
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.audit import Again, Genotype
from pipeline.kernels.design import Design, OfDesign
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.genotypes import Array
from pipeline.kernels.linear_regression import COLLINEAR_BELOW
from pipeline.kernels.mean_genotypes import MeanGenotypes
from pipeline.kernels.mixed_model import Rotated, best_log_ratio, heritability, mixed_association
from pipeline.kernels.p_values import significant, significant_z
from pipeline.kernels.relationship import GrmSums
from pipeline.stage import Context, Outcome
from pipeline.stages.genomics._audited import Audit
from pipeline.stages.genomics._relationships import MOST_PEOPLE, number_of, relationships_of, summed, varying_of
from pipeline.stages.genomics._results import ScanRows
from pipeline.stages.genomics._scan import FittedTraits, Scan
from pipeline.stages.genomics._sheet import Sheet, read_sheet, sheet_rows
from pipeline.stages.genomics._tallied import minus_nines
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

_FINE, _FEW, _CONSTANT, _COLLINEAR = range(4)
_NOT_TESTED = "two copies of everyone are needed, as relationships are of the autosomes"
VARIANCES: dict[str, pl.DataType] = {
    "trait": pl.String(), "n": pl.Int64(), "heritability": pl.Float64(), "standard_error": pl.Float64(),
    "genetic_variance": pl.Float64(), "residual_variance": pl.Float64(),
}  # fmt: skip


@dataclass(frozen=True)
class MixedModel(OfDesign):
    """The people who are used, their relationships taken apart, and rotated covariates and traits."""

    design: Design
    people: Array
    """`bool[n]`: who is used."""
    rotated: Rotated
    columns: Array
    """`float64[used, c]`: intercept and covariates."""
    traits: Array
    """`float64[used, t]`."""
    null_log_ratio: Array
    """`float64[t]`: of the model of no variant."""

    def beside(self, array: Array) -> MixedModel:
        """This model where `array` lives."""
        design, xp = self.design.beside(array), self.design.beside(array).xp
        rotated = Rotated(xp.asarray(self.rotated.vectors), xp.asarray(self.rotated.values))
        columns, traits, null = (xp.asarray(values) for values in (self.columns, self.traits, self.null_log_ratio))
        return replace(
            self, design=design, people=xp.asarray(self.people), rotated=rotated, columns=columns, traits=traits, null_log_ratio=null
        )

    def of_trait(self, trait: int) -> Array:
        """The columns and a trait, `float64[used, c + 1]`."""
        return self.design.xp.concatenate([self.columns, self.traits[:, trait : trait + 1]], axis=1)


class MixedModelGwas(Scan, name="mixed_model_gwas", version=2):
    """Test every variant among relatives or inbred lines, by an exact linear mixed model with covariates and intercept.

    A person's trait is what covariates and the variant give, a part that relatives share as their relationships are, and chance. With
    `wald` the variances of both are those of each variant's own restricted likelihood (GEMMA's -lmm 1), with `likelihood_ratio` those of
    its likelihood (-lmm 2); `score` (-lmm 3) and `emmax` take those of the trait without a variant, in a twentieth of the time.

    Relationships are those of principal_components, from the autosomes of `markers`, a genotype table of the same people (pruned, or of
    good quality alone), or by default of the genotypes themselves. Everyone with the trait and all covariates is used, and a missing
    call is the mean. X is tested as autosomes are; Y and MT have no result. For 10,000 people at most: time grows with the cube of them,
    and with their square for each variant; sums hold 12 bytes times that square a thread. More take whole_genome_regression.

    NAME.variances has a row per trait: its heritability without a variant, by restricted maximum likelihood, with its standard error.
    Results are not computed again by another way, as those of the other scans are.

    Example:
        {use: mixed_model_gwas, from: {genotypes: passed, samples: lines, markers: pruned}, as: gwas, traits: [height]}
    """

    roles = ("genotypes", "samples", "markers")
    optional: ClassVar[frozenset[str]] = frozenset({"markers"})
    tests = ("wald", "likelihood_ratio", "score", "emmax")
    reasons = ("", "nobody is called", "no variation among the used people", "collinear with the covariates")
    genotypes_at_once: ClassVar[int] = 1 << 21

    method: Literal["wald", "likelihood_ratio", "score", "emmax"] = Field("wald", description="The test, and whose variances it takes.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """One row per variant and trait; one per trait. Raises StageError for `sex`, which nothing here asks for."""
        if self.sex:
            raise StageError("X is tested as the autosomes are, and Y has no result, so sex changes nothing. Leave it out.", key="sex")
        if "markers" in schemas:
            need_genotypes(schemas["markers"], VARIANT, dosages=True)
        return super().outputs(schemas) | {"variances": Schema(pl.Schema(VARIANCES))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Relationships are summed over the markers and taken apart once; then a map over blocks of variants."""
        genotypes = tables["genotypes"]
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(context.name)
        markers, submit = tables["markers"].named(context.name) if "markers" in tables else genotypes, context.session.submit
        rows = sheet_rows(tables["samples"].named(context.name), self.needed, self.covariates)
        people = submit(_same, people_of(genotypes), people_of(markers), stage=context.name)
        total = summed(varying_of(markers, people).futures(), people, context)
        audit = Audit(context.seed, len(genotypes.blocks))
        fitted = submit(self.related, people, rows, audit, total, stage=context.name)
        variances = Table.of(context.session, context.name, [submit(_variances, fitted, stage=context.name)])
        counts = submit(_people, fitted, stage=context.name)
        return Outcome({"": genotypes.map_parts(self.scan, fitted), "variances": variances}, counts=counts)

    def related(self, people: Part, rows: Part, audit: Audit, total: GrmSums) -> FittedTraits:
        """The sheets of the traits that are missing for the same people, and their models."""
        autosomes = autosomes_of(people.frame) if AUTOSOME_COUNT in people.frame.columns else None
        sheets = read_sheet(people.frame, rows.frame, self.traits, self.covariates).groups()
        relationships = relationships_of(total, people.frame["sample_id"])
        return FittedTraits(sheets, [self.model(sheet, relationships) for sheet in sheets], audit, autosomes)

    def model(self, sheet: Sheet, relationships: Array) -> MixedModel:
        """The model of the people who have all of a sheet's values, on the host."""
        design, used = Design.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names), sheet.complete
        places = np.flatnonzero(used)
        apart = Rotated.of(relationships[places][:, places])
        rotated = Rotated(to_host(apart.vectors), to_host(apart.values))
        values = design.values()[:-1][used]
        turned, columns = rotated.vectors.T @ values, design.columns
        model = MixedModel(design, used, rotated, turned[:, :columns], turned[:, columns:], np.zeros(len(sheet.trait_names)))
        restricted = self.method == "emmax"
        null = [best_log_ratio(rotated.values, model.of_trait(i), None, restricted=restricted) for i in range(len(sheet.trait_names))]
        return replace(model, null_log_ratio=np.concatenate(null))

    def test(self, block: GenotypeBlock, model: MixedModel) -> ScanRows:
        """Every variant of a small block with every trait of the model."""
        xp, shape = block.xp, (len(block), len(model.trait_names))
        means = MeanGenotypes.of(block, model.mask, model.people)
        centred = (means.dense()[:, model.people] - means.means[:, None]) @ model.rotated.vectors
        left = (centred**2).sum(axis=1) - ((centred @ model.columns) ** 2).sum(axis=1)
        reason = xp.where(left <= COLLINEAR_BELOW * means.spread, xp.uint8(_COLLINEAR), xp.uint8(_FINE))
        reason = xp.where(means.varies, reason, xp.uint8(_CONSTANT))
        reason = xp.where(means.called > 0, reason, xp.uint8(_FEW))
        fine = xp.flatnonzero(reason == _FINE)
        found = {name: xp.full(shape, xp.nan) for name in ("beta", "standard_error", "statistic")}
        for trait in range(shape[1] if len(fine) else 0):
            columns, null = model.of_trait(trait), model.null_log_ratio[trait : trait + 1]
            fit = mixed_association(model.rotated.values, columns, centred[fine], self.method, null)
            for name, values in found.items():
                values[fine, trait] = getattr(fit, name)
        copies, alleles = block.alleles(model.mask)
        frequency = xp.where(alleles > 0, copies / xp.maximum(2 * alleles, 1), xp.nan)
        found |= {"reason": xp.repeat(reason[:, None], shape[1], axis=1), "n": xp.full(shape[0], model.used)}
        return self._rows(found | {"effect_allele_frequency": frequency}, model)

    def _rows(self, found: dict[str, Array], model: MixedModel) -> ScanRows:
        statistic, xp = found["statistic"], model.design.xp
        freedom = model.used - model.design.columns - 1
        if self.method == "likelihood_ratio":
            variant, trait, p_value, logarithm = significant_z(statistic, self.max_p)
        else:
            variant, trait, p_value, logarithm = significant(statistic, xp.full(len(statistic), freedom), self.max_p)
        test = xp.full(len(trait), self.tests.index(self.method), xp.uint8)
        return ScanRows.of(variant, trait, found, p_value=p_value, neg_log_10_p_value=logarithm, test=test)

    def again(self, genotype: Genotype, sheet: Sheet, place: int, test: str) -> Again:
        """None: a sheet does not hold relationships."""
        return Again(np.nan, np.nan, 0)

    def _kind(self, part: Part, places: Any, kind: str, fitted: tuple[Sheet, Any, Audit]) -> Part:
        """As of all scans, but X is as the autosomes are, and Y and MT have no result."""
        sheet, model, audit = fitted
        variants, block = self.piece(part, places, kind, len(sheet.traits))
        failed = _NOT_TESTED if kind in {"y", "mt"} else self._untestable("", sheet) if kind == "x" else self._untestable(kind, sheet)
        return self.without(variants, sheet.trait_names, failed) if failed else self.results(variants, block, (sheet, model, audit))


def _same(people: Part, markers: Part) -> Part:
    """The people, if the markers are of the same ones, and not too many."""
    number_of(people, MOST_PEOPLE, "the whole matrix is held", "Use whole_genome_regression and linear_gwas with its predictions.")
    if not people.frame["sample_id"].equals(markers.frame["sample_id"]):
        raise DataError(
            f"markers are of {markers.frame.height:,} people and the genotypes of {people.frame.height:,}, not the same in the same order. "
            "Make both from one table of people."
        )
    return people


def _variances(fitted: FittedTraits) -> Part:
    rows = []
    for model in fitted.models:
        for place, name in enumerate(model.trait_names):
            share, error, residual = heritability(model.rotated.values, model.of_trait(place))
            rows.append((name, model.used, share, error, residual * share / (1 - share), residual))
    frame = pl.DataFrame(rows, schema=VARIANCES, orient="row").with_columns(pl.col("standard_error").fill_nan(None))
    return Part(frame)


def _people(fitted: FittedTraits) -> dict[str, int]:
    found = {f"people_{name}": model.used for model in fitted.models for name in model.trait_names}
    return found | dict(entry for sheet in fitted.sheets for entry in minus_nines(sheet).items())
