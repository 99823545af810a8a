"""Heritability of traits from the relationships of their people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field
from scipy import special

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError
from pipeline.genome.columns import VARIANT
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.design import Design
from pipeline.kernels.haseman_elston import Regression, haseman_elston
from pipeline.kernels.mixed_model import Rotated
from pipeline.kernels.mixed_model import heritability as restricted
from pipeline.kernels.relationship import GrmSums
from pipeline.stage import ColumnName, ColumnNames, Context, Outcome, Whole
from pipeline.stages.genomics._pair_products import Group, PairSums, Vectors, pair_sums, regressions_of, vectors_of
from pipeline.stages.genomics._relationships import (
    MOST_IN_TILES,
    MOST_PEOPLE,
    RATE,
    WHOLE,
    number_of,
    of_tiles,
    refused_of,
    relationships_of,
    summed,
    varying_of,
)
from pipeline.stages.genomics._sheet import COVARIATES, Sheet, need_traits, read_sheet, sheet_columns, sheet_rows
from pipeline.stages.genomics._tiles import pair_work
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

Floats = NDArray[np.float64]
SCHEMA: dict[str, pl.DataType] = {
    "trait": pl.String(), "method": pl.String(), "n": pl.Int64(), "heritability": pl.Float64(), "standard_error": pl.Float64(),
    "genetic_variance": pl.Float64(), "residual_variance": pl.Float64(), "liability_heritability": pl.Float64(),
    "liability_standard_error": pl.Float64(),
}  # fmt: skip
_TWO = 2


class _Found(NamedTuple):
    """Of a trait: its name and values, the share of the variance, its standard error, and the variance that is not shared."""

    name: str
    values: Floats
    share: float
    error: float
    residual: float


class _Group(NamedTuple):
    """Traits of the same people."""

    names: tuple[str, ...]
    places: NDArray[np.int64]
    """Of those who have them, `int64[m]`."""
    values: Floats
    """The traits, `float64[m, t]`."""
    columns: Floats
    """Intercept and covariates, orthonormal, `float64[m, c]`."""
    residuals: Floats
    """The traits less what these explain, `float64[m, t]`."""

    @classmethod
    def of(cls, sheet: Sheet) -> _Group:
        """From the people's values."""
        design = Design.build(sheet.covariates, sheet.traits, sheet.covariate_names, sheet.trait_names)
        places = np.flatnonzero(sheet.complete)
        columns = design.values()[places][:, : design.columns]
        return cls(sheet.trait_names, places, sheet.traits[places], columns, design.residuals[places])

    @property
    def variance(self) -> Floats:
        """Of each trait's residuals, `float64[t]`."""
        variance: Floats = (self.residuals**2).sum(axis=0) / (len(self.places) - self.columns.shape[1])
        return variance

    @property
    def standard(self) -> Floats:
        """The residuals with a mean of 0 and a variance of 1, `float64[m, t]`."""
        standard: Floats = (self.residuals - self.residuals.mean(axis=0)) / np.sqrt(self.variance)
        return standard

    @property
    def multiplied(self) -> Group:
        """What relationships are multiplied with."""
        return self.places, self.standard

    def by_pairs(self, found: Sequence[Regression]) -> list[_Found]:
        """What the regressions of the traits say."""
        of_each = zip(self.names, self.values.T, found, self.variance.tolist(), strict=True)
        return [_Found(name, values, share, error, variance * (1 - share)) for name, values, (share, error), variance in of_each]

    def restricted(self, relationships: Any) -> list[_Found]:
        """By restricted likelihood of the people's relationships."""
        apart = Rotated.of(relationships)
        values, turned = to_host(apart.values), to_host(apart.vectors).T
        columns = [np.column_stack([self.columns, residual]) for residual in self.residuals.T]
        of_each = zip(self.names, self.values.T, columns, strict=True)
        return [_Found(name, values_of, *restricted(values, turned @ both)) for name, values_of, both in of_each]


class Heritability(Whole, name="heritability", version=2):
    """Give the share of each trait's variance that the relationships of the genotypes explain, with its standard error.

    `reml` is restricted maximum likelihood of relationships scaled to a mean diagonal of 1, as GEMMA's, with the error by the likelihood's
    curvature; `haseman_elston` the regression of the products of pairs' traits, freed of the covariates, on their relationships as they
    are, with the error by leaving out each person in turn, as GCTA's --HEreg: quicker, less exact, and not bounded to 0 and 1.
    Relationships are those of principal_components, of the autosomes, whose variants should be pruned or common alike; people should be
    unrelated, or families' shared homes count as heredity. A trait of two values has the share of its observed scale, and with
    `prevalence` that of a liability of which the cases are the upper tail, whatever their share in the sample (Lee et al. 2011, Am J Hum
    Genet 88:294-305). For 10,000 people at most; on a CPU `haseman_elston` is for 60,000, as it makes the matrix of more than 5,000 in
    tiles and keeps none.

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

    def of_pairs(self, rows: int, labels: int) -> str:
        """How many pairs of people there are, and how long they take."""
        most = MOST_PEOPLE if self.method == "reml" else MOST_IN_TILES
        return refused_of(labels, most) if labels > most else pair_work(labels, rows, RATE)

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Relationships are summed over the parts, then all traits in one task; or tiles of them are, of many people."""
        genotypes, submit, name = tables["genotypes"], context.session.submit, context.name
        genotypes = (genotypes if genotypes.cheap else genotypes.hold()).named(name)
        rows, people = sheet_rows(tables["samples"].named(name), self.needed, self.covariates), people_of(genotypes)
        tiled = self.method == "haseman_elston" and context.session.backend != "gpu"
        most, remedy = (MOST_IN_TILES, "") if tiled else (MOST_PEOPLE, "On a CPU method: haseman_elston has room for more. ")
        remedy += "Take a sample of them (sample, keep_people)."
        number = context.session.value(submit(number_of, people, most, "heritability is", remedy, stage=name))
        used = varying_of(genotypes, people).futures()
        if tiled and number > WHOLE:
            asked = submit(self.asked, people, rows, stage=name)
            tiles = of_tiles(pair_sums, used, number, context, submit(self.vectors, people, asked, stage=name))
            found = submit(self.shares_of_tiles, people, asked, *tiles, stage=name)
        else:
            found = submit(self.shares, people, rows, summed(used, people, context), stage=name)
        return Outcome({"": Table.of(context.session, name, [found])}, counts=submit(_tally, found, stage=name))

    def needed(self, samples: pl.LazyFrame) -> pl.LazyFrame:
        """The columns of the samples table that are used."""
        return samples.select("sample_id", *sheet_columns(samples, self.traits, self.covariates))

    def shares(self, people: Part, rows: Part, total: GrmSums | None) -> Part:
        """A row per trait."""
        relationships, found = relationships_of(total, people.frame["sample_id"]), list[_Found]()
        for group in self.asked(people, rows):
            own = relationships[group.places][:, group.places]
            by_pairs = self.method == "haseman_elston"
            found += group.by_pairs([haseman_elston(own, trait) for trait in group.standard.T]) if by_pairs else group.restricted(own)
        return self._rows(found)

    def asked(self, people: Part, rows: Part) -> list[_Group]:
        """The traits, those of the same people together."""
        return [_Group.of(sheet) for sheet in read_sheet(people.frame, rows.frame, self.traits, self.covariates).groups()]

    def vectors(self, people: Part, asked: list[_Group]) -> Vectors:
        """What the relationships are multiplied with."""
        return vectors_of([group.multiplied for group in asked], people.rows)

    def shares_of_tiles(self, people: Part, asked: list[_Group], *tiles: PairSums) -> Part:
        """A row per trait, of what the tiles add up to."""
        regressions = regressions_of([group.multiplied for group in asked], people, tiles)
        return self._rows([found for group, of_group in zip(asked, regressions, strict=True) for found in group.by_pairs(of_group)])

    def _rows(self, found: Sequence[_Found]) -> Part:
        """A row per trait, in their order."""
        rows = list[tuple[Any, ...]]()
        for name, values, share, error, residual in found:
            factor = self._liability(name, values)
            numbers = (share, error, residual * share / (1 - share), residual)
            rows.append((name, self.method, len(values), *numbers, factor * share, factor * error))
        order = pl.col("trait").replace_strict({name: place for place, name in enumerate(self.traits)}, return_dtype=pl.Int64)
        frame = pl.DataFrame(rows, schema=SCHEMA, orient="row").sort(order)
        return Part(frame.with_columns(pl.col(pl.Float64).fill_nan(None)))

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
