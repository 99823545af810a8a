"""Heritability of traits from the relationships of their people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field
from scipy import special

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.design import Design
from pipeline.kernels.haseman_elston import haseman_elston
from pipeline.kernels.mixed_model import Rotated
from pipeline.kernels.mixed_model import heritability as restricted
from pipeline.kernels.relationship import GrmSums
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Whole
from pipeline.stages.genomics._relationships import few_enough, relationships_of, summed, varying_of
from pipeline.stages.genomics._sheet import COVARIATES, Sheet, need_traits, read_sheet, sheet_columns, sheet_rows
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

SCHEMA: dict[str, pl.DataType] = {
    "trait": pl.String(), "method": pl.String(), "n": pl.Int64(), "heritability": pl.Float64(), "standard_error": pl.Float64(),
    "genetic_variance": pl.Float64(), "residual_variance": pl.Float64(), "liability_heritability": pl.Float64(),
    "liability_standard_error": pl.Float64(),
}  # fmt: skip
_TWO = 2


class _Found(NamedTuple):
    """The share of the variance, its standard error, and the variance that is not shared."""

    share: float
    error: float
    residual: float


class Heritability(Whole, name="heritability", version=1):
    """Give the share of each trait's variance that the relationships of the genotypes explain, with its standard error.

    `reml` is restricted maximum likelihood of relationships scaled to a mean diagonal of 1, as GEMMA's, with the error by the likelihood's
    curvature; `haseman_elston` the regression of the products of pairs' traits, freed of the covariates, on their relationships as they
    are, with the error by leaving out each person in turn, as GCTA's --HEreg: quicker, less exact, and not bounded to 0 and 1.
    Relationships are those of principal_components, of the autosomes, whose variants should be pruned or common alike; people should be
    unrelated, or families' shared homes count as heredity. A trait of two values has the share of its observed scale, and with
    `prevalence` that of a liability of which the cases are the upper tail, whatever their share in the sample (Lee et al. 2011, Am J Hum
    Genet 88:294-305). For 10,000 people at most.

    Example:
        {use: heritability, from: {genotypes: pruned, samples: people}, as: shares, traits: [ldl], covariates: [age, sex]}
    """

    roles = ("genotypes", "samples")
    long = "tables"
    counts: ClassVar[Mapping[str, Count]] = {"people_*": Count("people, *")}

    traits: ColumnNames = Field(description="Columns of the samples table to explain.")
    covariates: tuple[ColumnName, ...] = Field((), description=COVARIATES)
    method: Literal["reml", "haseman_elston"] = Field("reml", description="Restricted likelihood, or the regression of pairs' products.")
    prevalence: float | None = Field(None, gt=0, lt=1, description="Share of cases in the population, of traits of two values.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per trait."""
        need_genotypes(schemas["genotypes"], VARIANT, dosages=True)
        need_traits(schemas["samples"], self.traits, self.covariates)
        return {"": Schema(pl.Schema(SCHEMA))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Relationships are summed over the parts; then all traits in one task."""
        genotypes, submit, name = tables["genotypes"], context.session.submit, context.name
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(name)
        rows = sheet_rows(tables["samples"].named(name), self.needed, self.covariates)
        people = submit(few_enough, people_of(genotypes), stage=name)
        total = summed(varying_of(genotypes, people).futures(), people, context)
        found = submit(self.shares, people, rows, total, stage=name)
        return Outcome({"": Table.of(context.session, name, [found])}, counts=submit(_tally, found, stage=name))

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        return samples.select("sample_id", *sheet_columns(samples, self.traits, self.covariates))

    def shares(self, people: Part, rows: Part, total: GrmSums | None) -> Part:
        """A row per trait."""
        relationships, found = relationships_of(total, people.frame["sample_id"]), list[tuple[Any, ...]]()
        for sheet in read_sheet(people.frame, rows.frame, self.traits, self.covariates).groups():
            design, places = self._design(sheet), np.flatnonzero(sheet.complete)
            own = relationships[places][:, places]
            apart = Rotated.of(own) if self.method == "reml" else None
            for place, name in enumerate(sheet.trait_names):
                values = sheet.traits[places, place]
                share = self._share(design, place, places, own, apart)
                factor = self._liability(name, values)
                numbers = (share.share, share.error, share.residual * share.share / (1 - share.share), share.residual)
                found.append((name, self.method, len(places), *numbers, factor * share.share, factor * share.error))
        order = pl.col("trait").replace_strict({name: place for place, name in enumerate(self.traits)}, return_dtype=pl.Int64)
        frame = pl.DataFrame(found, schema=SCHEMA, orient="row").sort(order)
        return Part(frame.with_columns(pl.col(pl.Float64).fill_nan(None)))

    def _design(self, sheet: Sheet) -> Design:
        return Design.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names)

    def _share(self, design: Design, place: int, places: Any, own: Any, apart: Rotated | None) -> _Found:
        """One trait's."""
        if apart is None:
            residual = design.residuals[places, place]
            variance = float((residual**2).sum()) / (len(places) - design.columns)
            share, error = haseman_elston(own, (residual - residual.mean()) / math.sqrt(variance))
            return _Found(share, error, variance * (1 - share))
        columns = np.column_stack([design.values()[places][:, : design.columns], design.residuals[places, place]])
        turned = to_host(apart.vectors).T @ columns
        return _Found(*restricted(to_host(apart.values), turned))

    def _liability(self, name: str, values: Any) -> float:
        """What heritability of the observed scale is multiplied with for that of the liability; NaN where it is not asked for."""
        if self.prevalence is None:
            return math.nan
        found = np.unique(values)
        if len(found) != _TWO:
            why = f"trait {name!r} has {len(found):,} values, and prevalence is of traits of two. Leave it out."
            raise DataError(why, key="prevalence")
        cases, population = float((values == found[1]).mean()), self.prevalence
        height = math.exp(-0.5 * float(special.ndtri(population)) ** 2) / math.sqrt(2 * math.pi)
        return (population * (1 - population)) ** 2 / (height**2 * cases * (1 - cases))


def _tally(found: Part) -> dict[str, int]:
    return {f"people_{trait}": n for trait, n in found.frame.select("trait", "n").iter_rows()}
