"""The sums of products that a linear genome scan needs of one site's people, variant by variant, under masks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, chromosome_key, chromosome_kind
from pipeline.genome.columns import VARIANT, need_known
from pipeline.genome.genotypes import need_genotypes
from pipeline.kernels.exact_products import MOST_PEOPLE, People, product_sums
from pipeline.kernels.genotypes import call_counts
from pipeline.stage import ColumnName, Context, Outcome, need_numeric
from pipeline.stages.genomics._pooled_scan import GENOTYPE, KEY, MOST_BITS, TABLE, check_once, entries_of, masked_texts
from pipeline.stages.genomics._sheet import read_sheet
from pipeline.stages.models._pooled.masks import Agreed, Pads
from pipeline.stages.models._pooled.site import OfSite
from pipeline.stages.models._pooled.sums import INTERCEPT
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

VALUE_BITS = 62
_BLOCK_BYTES = 16 << 20


class SiteGwasSums(OfSite, name="site_gwas_sums", version=1):
    """Sum the products of intercept, covariates, trait and genotype over this site's people, variant by variant, masked for `pooled_gwas`.

    Every site runs it on its own people with the same study, sites, trait, covariates, missing and digits. A row a variant: what is agreed,
    the variant, and `masked`, the upper triangle of the products as hexadecimal digits, 40 a number. Covariates and trait are rounded to
    2^-digits; sums of what is rounded are exact, for any parts. People are matched by sample_id; one without trait or a covariate is left
    out. Human autosomes alone; calls, not dosages. Secrets and masks are those of `site_sums`, and hide and do not hide the same.

    `missing: complete_case` leaves a person without a call out of that variant, as PLINK does. The pooled sums of two variants then differ
    by the people who miss one of them alone: where that is one person of all sites, whoever pools can read the person's trait and
    covariates. `mean` takes the mean of the site's other people for a missing call, and tells nobody. The products of a variant that few
    carry tell about these: one with fewer than `carriers` people with ALT, or with REF, is left out; it is then in no pooled answer.

    Example:
        {use: site_gwas_sums, from: {genotypes: passed, samples: people}, as: sums, site: berlin, sites: [berlin, oslo], trait: ldl,
         covariates: [age, sex], missing: mean, study: ldl-2026-1, secrets: {oslo: "${OSLO_SECRET:-}"}}
    """

    roles = ("genotypes", "samples")
    counts: ClassVar[Mapping[str, Count]] = {
        "people_used": Count("people in the sums"),
        "variants_out": Count("variants with sums"),
        "variants_off_autosomes": Count("variants off the autosomes left out"),
        "variants_rare": Count("variants with few carriers left out"),
    }

    trait: ColumnName = Field(description="Column of the samples table to explain.")
    covariates: tuple[ColumnName, ...] = Field((), description="Columns of it to adjust for, at every site in the same order.")
    missing: Literal["complete_case", "mean"] = Field(
        description="What a missing call means: the person is left out for that variant, or gets the mean of the site's others."
    )
    digits: int = Field(40, ge=0, le=MOST_BITS, description="Binary digits after the point that covariates and trait are rounded to.")
    least: int = Field(20, ge=1, description="Fewest people that this site gives sums of.")
    carriers: int = Field(10, ge=0, description="Fewest people with ALT, and with REF, whose products this site gives.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """What leaves the site. Raises StageError for columns that cannot be summed, and for sites and secrets that do not fit."""
        people = need_genotypes(schemas["genotypes"], VARIANT)
        if AUTOSOME_COUNT in people:
            raise StageError(f"the people have a column {AUTOSOME_COUNT!r}: sums are given of human autosomes alone", key="from")
        need_known(schemas["samples"], ("sample_id",), "samples")
        need_numeric(schemas["samples"], [self.trait], key="trait")
        need_numeric(schemas["samples"], self.covariates, key="covariates")
        if self.trait in self.covariates or len({*self.covariates}) < len(self.covariates):
            raise StageError("the trait is among them, or one is there twice. Leave it out.", key="covariates")
        self.check_sites()
        return {"": Schema(pl.Schema(TABLE))}

    @property
    def agreed(self) -> Agreed:
        """What the sites agree on."""
        return Agreed(self.study, self.sites, (INTERCEPT, *self.covariates, self.trait, GENOTYPE[self.missing]), self.digits)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The people once, then a task a part."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        genotypes = genotypes if genotypes.cheap else genotypes.hold()
        bare = self.bare()
        samples, variants = tables["samples"].named(name).map(bare.needed).value(), genotypes.map_parts(_keys).value()
        people = submit(bare.people, genotypes.axes["calls"].value(), samples, variants, stage=name)
        sums = genotypes.map_parts(bare.sums, people, self.pads(self.agreed))
        return Outcome({"": sums}, counts=submit(_counts, people, stage=name))

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        return samples.select("sample_id", *(pl.col(name).cast(pl.Float64) for name in (self.trait, *self.covariates)))

    def people(self, people: Part, samples: Part, variants: Part) -> People:
        """Covariates and trait of the genotype table's people.

        Raises DataError for too few people, values beyond the digits, and a variant that is there twice: its masks would be, too.
        """
        check_once(variants.frame, "the genotype table")
        sheet = read_sheet(people.frame, samples.frame, [self.trait], self.covariates)
        columns = np.column_stack([sheet.covariates, sheet.traits])
        for name, values in zip((*self.covariates, self.trait), columns.T, strict=True):
            if (np.abs(values[~np.isnan(values)]) >= 2.0 ** (VALUE_BITS - self.digits)).any():
                raise DataError(
                    f"column {name!r} has a value of 2^{VALUE_BITS - self.digits} or more, or an infinite one, which the exact sums cannot "
                    "hold. Divide the column by a constant at every site, or lower digits at every site."
                )
        found = People.of(columns, self.digits)
        if (used := int(found.used.sum())) < self.least:
            raise DataError(
                f"site {self.site!r} has {used} people with trait and covariates, and least is {self.least}: sums of so few would tell "
                "about each of them. Leave the site out of the study."
            )
        if used > MOST_PEOPLE:
            raise DataError(f"{used} people, and a site has at most {MOST_PEOPLE}. Let it take part as two.")
        return found

    def sums(self, part: Part, people: People, pads: Pads) -> Part:
        """The masked sums of one part's variants."""
        frame = part.frame.with_columns(_autosomal().alias("autosomal"), chromosome_key().alias("chromosome"))
        calls = np.ascontiguousarray(to_host(part.arrays["calls"]))
        counts = call_counts(calls & people.mask, len(people.used))
        counts[:, 0] -= len(people.used) - int(people.used.sum())
        common = np.minimum(counts[:, 1] + counts[:, 2], counts[:, 0] + counts[:, 1]) >= self.carriers
        autosomes = frame["autosomal"].to_numpy()
        places = np.flatnonzero(autosomes & common)
        chosen, calls = frame[places], take(calls, places)
        step, texts = max(1, _BLOCK_BYTES // (8 * 10 * entries_of(self.agreed))), list[str]()
        for start in range(0, len(places), step):
            go_on()
            at = slice(start, start + step)
            texts += masked_texts(chosen[at], product_sums(calls[at], people, complete_case=self.missing == "complete_case"), pads)
        agreed = self.agreed
        said = {
            "study": agreed.study, "site": self.site, "sites": json.dumps(agreed.sites), "columns": json.dumps(agreed.columns),
            "digits": agreed.digits,
        }  # fmt: skip
        left = {"variants_off_autosomes": int((~autosomes).sum()), "variants_rare": int((autosomes & ~common).sum())}
        rows = chosen.with_columns(
            *(pl.lit(value, TABLE[name]).alias(name) for name, value in said.items()), masked=pl.Series(texts, dtype=pl.String)
        )
        return Part(rows.select(pl.col(name).cast(dtype) for name, dtype in TABLE.items()), counts={"variants_out": len(places), **left})


def _autosomal() -> pl.Expr:
    return chromosome_kind().eq("autosome").fill_null(value=False)


def _keys(part: Part) -> Part:
    return Part(part.frame.filter(_autosomal()).select(chromosome_key(), *KEY[1:]))


def _counts(people: People) -> dict[str, int]:
    return {"people_used": int(people.used.sum())}
