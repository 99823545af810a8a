"""Gene-based tests: burden, SKAT, SKAT-O, ACAT and SBAT of sets of rare variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field, field_validator

from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN, ONE_COPY, autosomes_of, chromosome_key, chromosome_kind
from pipeline.genome.columns import VARIANT, dtypes_of, need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.genotypes import Array
from pipeline.kernels.predicted_binary import PredictedMethod
from pipeline.kernels.predicted_binary_design import PredictedBinaryDesign
from pipeline.kernels.predicted_scan import PredictedDesign
from pipeline.kernels.set_scores import Burden
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Share, Whole
from pipeline.stages.genomics._joint_tests import Model, Tested
from pipeline.stages.genomics._predictions import NEEDED, PredictedTraits, joined_stretches, needed_predictions, stretches_of
from pipeline.stages.genomics._set_tests import SetTests, Test
from pipeline.stages.genomics._set_variants import block_of, check_sets, ends_of, going_on, ids_of, sets_of, variants_of
from pipeline.stages.genomics._sheet import COVARIATES, need_traits, read_sheet, sheet_columns, sheet_rows
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

COLUMNS = (
    "set_id", "chromosome", "base_pair_location", "mask", "frequency_bin", "variants_used", "trait", "test", "beta", "standard_error",
    "statistic", "effect_allele_frequency", "n", "p_value", "neg_log_10_p_value",
)  # fmt: skip
_NUMBERS = ("beta", "standard_error", "statistic", "effect_allele_frequency", "p_value", "neg_log_10_p_value")
_SETS = ("set_id", "variant_id", "masks")
_PLACE = ("chromosome", "base_pair_location")


@dataclass(frozen=True)
class FittedSets:
    """The traits' model, or what makes one of each chromosome where there are predictions."""

    model: Model | None
    predicted: PredictedTraits | None
    autosomes: int

    def of(self, chromosome: str) -> Model | None:
        """The model of sets on a chromosome; None where no predictions leave it out."""
        return self.model if self.predicted is None else self.predicted.less(chromosome)


class SetAssociation(Whole, name="set_association", version=4):
    """Test sets of rare variants for an effect on each trait, as regenie's gene-based tests do.

    Sets are what variant_sets gives (set_id, variant_id, masks). A mask's burden in a person is the greatest count of ALT (`burden: max`)
    of its variants up to an ALT frequency, one mask for each of `max_frequencies` (and singletons), tested by chi-square. SKAT, SKAT-O
    (rho 0 to 1 on regenie's grid; its Cauchy combination is skat_o_acat), acat_v and acat_o (acat_v and the grid) are of a mask's
    variants up to `component_max_frequency`, weighted by beta densities of their frequency, those with few copies of ALT collapsed to one.
    burden_acat (of all masks, of `burden: max` weighted by frequency as in regenie, burden_acat_equal without weights), sbat (all burdens
    with effects of one sign, and rows for each sign) and gene_p (of burden_acat_equal, sbat and the masks' acat_v and skat_o_acat) are of
    a set.

    People and predictions are used as linear_gwas uses them: whoever has all covariates, a trait and its predictions; missing calls are
    the mean, and count nothing in a mask. Every chromosome is tested as an autosome but Y and MT, whose sets are left out, as are sets
    on chromosomes without predictions. Gives a row a set, mask, frequency_bin (0.01, singleton, all), trait and test; statistic is the
    root of chi-square of one degree of freedom, with beta's sign; n of a burden is who has a call. Masks with fewer than `min_mac` copies
    of ALT have no rows.

    Example:
        {use: set_association, from: {genotypes: passed, samples: people, sets: sets}, as: genes, traits: [ldl], covariates: [age, sex]}
    """

    roles = ("genotypes", "samples", "sets", "predictions")
    optional: ClassVar[frozenset[str]] = frozenset({"predictions"})
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        "sets_tested": Count("sets tested", always=True),
        "sets_not_tested": Count("sets on chromosomes that are not tested"),
        "masks_too_rare": Count("masks with too few copies of ALT"),
    }

    traits: ColumnNames = Field(description="Columns of the samples table to explain.")
    covariates: tuple[ColumnName, ...] = Field((), description=COVARIATES)
    kind: Literal["quantitative", "binary"] = Field("quantitative", description="What the traits are; binary: 0 and 1, or 1 and 2 (case).")
    method: PredictedMethod = Field(
        "firth_approximate", description="Of binary traits: how what has p <= screen in the score test is tested (as in logistic_gwas)."
    )
    screen: Share = Field(0.05, description="Of binary traits: the greatest p-value of the score test that is looked at again.")
    tests: tuple[Test, ...] = Field(
        ("burden", "skat", "skat_o", "skat_o_acat", "acat_v", "acat_o", "burden_acat", "sbat", "gene_p"),
        min_length=1, description="Tests whose rows are given.",
    )  # fmt: skip
    burden: Burden = Field(
        "max", description="A person's burden: the greatest count of ALT, the sum of all, or the sum up to 2 (compound heterozygotes)."
    )
    max_frequencies: tuple[Share, ...] = Field(
        (0.01,), min_length=1, description="Greatest ALT frequencies of the burden masks' variants; singletons are in all."
    )
    singletons: bool = Field(True, description="A burden mask of the variants with one copy of ALT, too.")
    component_max_frequency: Share = Field(
        1.0, gt=0, description="Greatest ALT frequency of variants in SKAT and its kin; a burden mask of these is tested, too."
    )
    collapse_mac: int = Field(10, ge=0, description="Variants of at most as many copies of ALT are one mask in SKAT and its kin.")
    min_mac: float = Field(5, ge=0, description="Least copies of the minor allele in a burden mask that is tested.")
    weights: tuple[float, float] = Field((1.0, 25.0), description="Parameters of the beta density that weighs variants by frequency.")

    mask_groups: dict[str, tuple[str, ...]] = Field(
        {}, description="Groups of masks, by name, of which burden_acat, sbat and gene_p are made once more; mask says the group then."
    )

    @field_validator("max_frequencies", "tests")
    @classmethod
    def _no_twice(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len({*values}) < len(values):
            raise ValueError(f"{list(values)} names one twice")
        return values

    @field_validator("weights")
    @classmethod
    def _above_nothing(cls, values: tuple[float, float]) -> tuple[float, float]:
        if min(values) <= 0:
            raise ValueError(f"parameters of a beta density are above 0, not {list(values)}")
        return values

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per set, mask, bin, trait and test."""
        need_genotypes(schemas["genotypes"], VARIANT, dosages=True)
        need_traits(schemas["samples"], self.traits, self.covariates)
        need_known(schemas["sets"], _SETS, "sets")
        if "predictions" in schemas:
            need_known(schemas["predictions"], NEEDED, "predictions")
        return {"": Schema(pl.Schema(dtypes_of(COLUMNS)))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Each set is tested with the part that has its last variant; variants of sets that go on are handed to the next part's task."""
        submit, name = context.session.submit, context.name
        genotypes = (tables["genotypes"] if tables["genotypes"].cheap else tables["genotypes"].hold()).named(name)
        people, rows = people_of(genotypes), sheet_rows(tables["samples"].named(name), self._needed, self.covariates)
        stretches = None
        if "predictions" in tables:
            predictions = tables["predictions"].named(name).map(needed_predictions)
            stretches = predictions.reduce(stretches_of, joined_stretches, people, self.traits)
        fitted = submit(self.fitted, people, rows, stretches, stage=name)
        sets = tables["sets"].named(name).map(_needed_sets).value()
        ends = submit(ends_of, sets, *genotypes.map_parts(ids_of, sets).futures(), stage=name)
        found, before = [], None
        for number, part in enumerate(genotypes.map_parts(variants_of, sets).futures()):
            found.append(submit(self.tested, number, part, before, ends, fitted, stage=name))
            before = submit(going_on, number, part, before, ends, stage=name)
        return Outcome({"": Table.of(context.session, name, found)})

    def _needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        return samples.select("sample_id", *sheet_columns(samples, self.traits, self.covariates))

    @property
    def rule(self) -> SetTests:
        """The tests of a set."""
        return SetTests(
            self.tests, self.burden, tuple(sorted(self.max_frequencies)), self.component_max_frequency, self.singletons,
            self.collapse_mac, self.min_mac, self.weights, self.method, self.screen, self.mask_groups,
        )  # fmt: skip

    def fitted(self, people: Part, rows: Part, stretches: Any) -> FittedSets:
        """The traits of all people, less covariates."""
        autosomes = autosomes_of(people.frame) if AUTOSOME_COUNT in people.frame.columns else HUMAN
        sheet = read_sheet(people.frame, rows.frame, self.traits, self.covariates)
        if stretches is not None:
            return FittedSets(None, PredictedTraits.of(sheet, stretches, self._built, None, autosomes), autosomes)
        design = self._built(sheet.covariates, sheet.traits, (sheet.covariate_names, self.traits))
        return FittedSets(design.less(np.zeros(sheet.traits.T.shape)), None, autosomes)

    def _built(
        self, covariates: Array, traits: Array, names: tuple[Sequence[str], Sequence[str]]
    ) -> PredictedDesign | PredictedBinaryDesign:
        """Covariates made orthonormal."""
        if self.kind == "binary":
            return PredictedBinaryDesign.build(covariates, traits, names, firth=self.method == "firth_approximate")
        return PredictedDesign.build(covariates, traits, names)

    def tested(self, number: int, part: Part, before: Part | None, ends: Part, fitted: FittedSets) -> Part:
        """The rows of the sets whose last variant is in this part."""
        whole = part if before is None else concat_parts([before, part])
        kinds = {"kind": chromosome_kind(autosomes=fitted.autosomes), "key": chromosome_key(autosomes=fitted.autosomes)}
        variants = whole.frame.with_row_index("row").with_columns(**kinds)
        met = variants.join(ends.frame.filter(pl.col("end") == number), on="variant_id", maintain_order="left")
        rows = met.sort("set_id", "variant_id")
        check_sets(rows)
        tally = dict.fromkeys(("sets_tested", "sets_not_tested", "masks_too_rare"), 0)
        models, found = dict[str, Model | None](), list[tuple[Any, ...]]()
        place = [f"set_{name}" if f"set_{name}" in rows.columns else name for name in _PLACE]
        for (set_id, key, kind, *where), own, masks in sets_of(rows, place):
            go_on()
            if key not in models:
                model = None if kind is None or kind in ONE_COPY else fitted.of(key)
                models[key] = model and model.beside(next(iter(whole.arrays.values())))
            model = models[key]
            if model is None:
                tally["sets_not_tested"] += 1
                continue
            tested, rare = self.rule.of(block_of(whole, own, len(model.known)), masks, model)
            tally["sets_tested"] += 1
            tally["masks_too_rare"] += rare
            people = model.known.sum(axis=0).tolist()
            found += [_row((set_id, *where), row, model.trait_names[row.trait], people[row.trait]) for row in tested]
        frame = pl.DataFrame(found, schema=dtypes_of(COLUMNS), orient="row")
        return Part(frame.with_columns(pl.col(_NUMBERS).fill_nan(None)), counts=tally)


def _row(place: tuple[Any, ...], row: Tested, trait: str, people: int) -> tuple[Any, ...]:
    """A row in the order of COLUMNS."""
    numbers = (row.beta, row.standard_error, row.statistic, row.frequency)
    own = (row.mask or None, row.bin or None, row.variants or None)
    return (*place, *own, trait, row.test, *numbers, people if np.isnan(row.n) else int(row.n), row.p_value, row.neg_log_10_p_value)


def _needed_sets(sets: pl.LazyFrame) -> pl.LazyFrame:
    place = [name for name in _PLACE if name in sets.collect_schema().names()]
    return sets.select(*_SETS, *(pl.col(name).alias(f"set_{name}") for name in place))
