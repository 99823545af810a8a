"""Which variants of a scan's loci act: the sum of single effects (SuSiE) from associations and a panel's linkage."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.genome.columns import VOCABULARY, dtypes_of
from pipeline.kernels.single_effects import CredibleSet, SingleEffects, credible_sets, single_effects
from pipeline.stage import Context, Outcome, Whole
from pipeline.stages.genomics._loci import COUNTS, NEEDED, Found, Locus, each_locus, joined, need_loci
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

SETS: dict[str, pl.DataType] = {
    "locus": pl.String(),
    "credible_set": pl.Int64(),
    "variants": pl.Int64(),
    "coverage": pl.Float64(),
    "purity": pl.Float64(),
    "log_10_bayes_factor": pl.Float64(),
    "variant_id": pl.String(),
    "inclusion_probability": pl.Float64(),
    "variant_ids": pl.String(),
}


class FineMap(Whole, name="fine_map", version=1):
    """Give each variant around the loci of a scan its probability to act, and credible sets that hold one acting variant each.

    SuSiE from summary statistics (Wang et al. 2020, Zou et al. 2022; susieR's susie_rss with n): at most `effects` effects a locus, their
    prior variances estimated, residual variance 1. `loci` is any table with chromosome and base_pair_location, such as clump's; the `kb` on
    either side count, and overlapping ones are one locus. r is of the founders' calls in `genotypes`: the scan's own people, or some
    thousand of their ancestry. Associations find their calls by id, position and alleles, either way round.

    A row a variant of a locus: beta and the like, inclusion_probability, effect_mean and effect_sd (standard deviations of the trait per
    effect allele's standard deviation), credible_set (the first it is in). NAME.sets has a row a set: coverage, purity (least |r|
    within), the likeliest variant, all variant_ids.

    Example:
        {use: fine_map, from: {associations: gwas, genotypes: passed, loci: hits}, as: mapped, kb: 250}
    """

    roles = ("associations", "genotypes", "loci")
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {
        **COUNTS,
        "not_settled": Count("loci that did not settle"),
        "sets": Count("credible sets"),
    }

    kb: float = Field(250, gt=0, le=10_000, description="Thousands of base pairs on either side of a locus.")
    effects: int = Field(10, ge=1, le=100, description="Effects of a locus at most; those that are not needed come to nothing.")
    coverage: float = Field(0.95, gt=0, lt=1, description="Probability that a credible set holds the variant of its effect, at least.")
    min_purity: float = Field(0.5, ge=0, le=1, description="Least |r| of two variants of a set; sets below are not given.")
    max_variants: int = Field(5_000, ge=1, le=50_000, description="Variants of a locus at most: linkage takes 8 bytes times their square.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant; a row a credible set."""
        need_loci(schemas)
        return {name: Schema(columns) for name, columns in zip(("", "sets"), self._columns(schemas["associations"]), strict=True)}

    def _columns(self, associations: Schema) -> tuple[pl.Schema, pl.Schema]:
        trait = {"trait": VOCABULARY["trait"].dtype} if "trait" in associations.columns else {}
        numbers = dict.fromkeys(("inclusion_probability", "effect_mean", "effect_sd"), pl.Float64())
        own = {"locus": pl.String(), **dtypes_of(NEEDED), **trait, **numbers, "credible_set": pl.Int64()}
        return pl.Schema(own), pl.Schema({**SETS, **trait})

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """What lies around the loci is gathered, and loci are mapped task by task."""
        session, name = context.session, context.name
        lanes = each_locus(tables, context, int(self.kb * 1000), self.max_variants, self.mapped)
        given = tables["associations"].schema
        assert given is not None
        found = session.submit(joined, self._columns(given), *lanes, stage=name)
        own, sets, counts = (session.submit(itemgetter(place), found, stage=name) for place in range(3))
        return Outcome({"": Table.of(session, name, [own]), "sets": Table.of(session, name, [sets])}, counts=counts)

    def mapped(self, locus: Locus) -> Found:
        """The variants and the credible sets of a locus."""
        rows = locus.rows.with_columns(locus=pl.lit(locus.place.name))
        if not rows.height:
            return Found(rows, pl.DataFrame(schema=SETS), {"loci": 1, **locus.counts})
        found = single_effects(locus.z, locus.r, float(np.median(locus.rows["n"].to_numpy())), min(self.effects, rows.height))
        sets = credible_sets(found, locus.r, self.coverage, self.min_purity)
        mean, deviation = found.posterior
        which = np.zeros(rows.height, np.int64)
        for number, one in reversed(list(enumerate(sets, 1))):
            which[one.variants] = number
        rows = rows.with_columns(
            inclusion_probability=pl.Series(found.inclusion),
            effect_mean=pl.Series(mean * locus.sign),
            effect_sd=pl.Series(deviation),
            credible_set=pl.when(pl.Series(which) > 0).then(pl.Series(which)),
        )
        counts = {**locus.counts, "loci": 1, "not_settled": int(not found.settled), "sets": len(sets)}
        return Found(rows, self._sets(locus, found, sets), counts)

    def _sets(self, locus: Locus, found: SingleEffects, sets: list[CredibleSet]) -> pl.DataFrame:
        """A row a credible set."""
        ids = locus.rows["variant_id"]
        rows = [
            {
                "locus": locus.place.name,
                "credible_set": number,
                "variants": len(one.variants),
                "coverage": one.coverage,
                "purity": one.purity,
                "log_10_bayes_factor": found.log_bayes_factors[one.effect] / np.log(10),
                "variant_id": ids[int(one.variants[0])],
                "inclusion_probability": found.inclusion[one.variants[0]],
                "variant_ids": ",".join(ids.gather(one.variants).to_list()),
            }
            for number, one in enumerate(sets, 1)
        ]
        return pl.DataFrame(rows, schema=SETS).with_columns(trait=pl.lit(locus.place.trait, pl.String))
