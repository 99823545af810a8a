"""The exact sums of products that a linear genome scan needs of a cohort, variant by variant: kept, they can be added and taken away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, chromosome_key, chromosome_kind
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.exact_products import MOST_PEOPLE, People, product_sums
from pipeline.kernels.genotypes import take_samples
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Whole
from pipeline.stages.genomics._moments import TABLE, entries_of, texts_of
from pipeline.stages.genomics._pooled_scan import MOST_BITS
from pipeline.stages.genomics._sheet import need_traits, read_sheet
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.rounds import go_on
from pipeline.tables.table import Table

_VALUE_BITS = 62
_BLOCK_BYTES = 16 << 20
_DIGITS_HELD = 10


@dataclass(frozen=True)
class OfTrait:
    """The people who have a trait and all covariates: their places in the genotype table, ascending, and their values."""

    trait: str
    places: np.ndarray[Any, Any]
    people: People


class GwasMoments(Whole, name="gwas_moments", version=1):
    """Sum the products of intercept, covariates, trait and genotype over a cohort's people, variant by variant and exactly.

    A row a variant and trait; `sums` is the upper triangle of the products as hexadecimal digits, 40 a number. `gwas_from_moments` makes of
    them what `linear_gwas` gives (complete cases, additive coding), to 1e-10; `pool_moments` adds cohorts, takes away people who have
    withdrawn, and drops covariates, none of which reads the cohort's genotypes again. Covariates and traits are rounded to 2^-digits,
    and sums of what is rounded are exact: what is added and taken away again leaves not a bit.

    People are matched by sample_id; one with no row, or without the trait or a covariate, is not in the trait's sums: a samples table of 50
    people has the moments of 50, and decodes their calls alone. Autosomes alone, calls and not dosages. The sums are not masked: those of
    few people tell about each of them (`site_gwas_sums` masks).

    Example:
        {use: gwas_moments, from: {genotypes: passed, samples: people}, as: moments, cohort: first, traits: [ldl], covariates: [age]}
    """

    roles = ("genotypes", "samples")
    counts: ClassVar[Mapping[str, Count]] = {
        "people_*": Count("people, *"),
        "variants_off_autosomes": Count("variants off the autosomes left out"),
    }

    cohort: str = Field(min_length=1, description="What these people are called: no two tables that are added have the same.")
    traits: ColumnNames = Field(description="Columns of the samples table to explain.")
    covariates: tuple[ColumnName, ...] = Field((), description="Columns of the samples table to adjust for; the intercept is always there.")
    digits: int = Field(40, ge=0, le=MOST_BITS, description="Binary digits after the point that covariates and traits are rounded to.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a variant and trait. Raises StageError for columns that cannot be summed."""
        if AUTOSOME_COUNT in need_genotypes(schemas["genotypes"], VARIANT):
            raise StageError(f"the people have a column {AUTOSOME_COUNT!r}: moments are of human autosomes alone", key="from")
        need_traits(schemas["samples"], self.traits, self.covariates, words=False)
        return {"": Schema(pl.Schema(TABLE))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """The people once, then a task a part; nothing is exchanged."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        samples = tables["samples"].named(name).map(self.needed).value()
        people = submit(self.people, people_of(genotypes), samples, stage=name)
        return Outcome({"": genotypes.map_parts(self.sums, people)}, counts=submit(_counts, people, stage=name))

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        return samples.select("sample_id", *(pl.col(name).cast(pl.Float64) for name in (*self.traits, *self.covariates)))

    def people(self, people: Part, samples: Part) -> list[OfTrait]:
        """Who is in each trait's sums. Raises DataError for values beyond the digits, and for too many people."""
        sheet = read_sheet(people.frame, samples.frame, self.traits, self.covariates)
        for name, values in zip((*self.covariates, *self.traits), np.column_stack([sheet.covariates, sheet.traits]).T, strict=True):
            if (np.abs(values[~np.isnan(values)]) >= 2.0 ** (_VALUE_BITS - self.digits)).any():
                raise DataError(
                    f"column {name!r} has a value of 2^{_VALUE_BITS - self.digits} or more, or an infinite one, which exact sums cannot "
                    f"hold with digits: {self.digits}. Divide the column by a constant, or lower digits, in all moments to be added."
                )
        found = list[OfTrait]()
        for place, trait in enumerate(self.traits):
            columns = np.column_stack([sheet.covariates, sheet.traits[:, place]])
            places = np.flatnonzero(~np.isnan(columns).any(axis=1))
            if len(places) > MOST_PEOPLE:
                raise DataError(
                    f"{len(places)} people have trait {trait!r}, and sums are of at most {MOST_PEOPLE}. Sum two halves, and pool them."
                )
            found.append(OfTrait(trait, places, People.of(columns[places], self.digits)))
        return found

    def sums(self, part: Part, people: list[OfTrait]) -> Part:
        """The sums of one part's variants, in their order and then in that of the traits."""
        frame = part.frame.with_columns(chromosome_kind().eq("autosome").fill_null(value=False).alias("autosomal"), chromosome_key())
        places = np.flatnonzero(frame["autosomal"].to_numpy())
        variants, calls = frame[places], np.ascontiguousarray(take(to_host(part.arrays["calls"]), places))
        n = part.arrays["calls"].shape[1] * 4
        step = max(1, _BLOCK_BYTES // (8 * _DIGITS_HELD * entries_of(self.covariates)))
        found = [pl.DataFrame(schema=TABLE | {"place": pl.Int64()})]
        for one in people:
            texts = list[str]()
            for start in range(0, len(places), step):
                go_on()
                texts += texts_of(self._products(take_samples(calls[start : start + step], n, one.places), one.people))
            said = {"cohort": self.cohort, "trait": one.trait, "covariates": json.dumps(self.covariates), "digits": self.digits}
            rows = variants.with_columns(
                *(pl.lit(value, TABLE[name]).alias(name) for name, value in said.items()),
                sums=pl.Series(texts, dtype=pl.String), place=pl.Series(np.arange(len(places))),
            )  # fmt: skip
            found.append(rows.select(pl.col(name).cast(dtype) for name, dtype in (TABLE | {"place": pl.Int64()}).items()))
        whole = pl.concat(found).sort("place", maintain_order=True).select(*TABLE)
        return Part(whole, counts={"variants_off_autosomes": frame.height - len(places)})

    def _products(self, calls: np.ndarray[Any, Any], people: People) -> np.ndarray[Any, Any]:
        """The sums of a block, zeros where nobody is in them."""
        if not len(people.used):
            return np.zeros((len(calls), entries_of(self.covariates), _DIGITS_HELD), np.int64)
        return product_sums(calls, people, complete_case=True)


def _counts(people: list[OfTrait]) -> dict[str, int]:
    return {f"people_{one.trait}": len(one.places) for one in people}
