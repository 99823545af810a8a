"""Other people placed on axes of ancestry that were found before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.arrays import array_module, to_host
from pipeline.errors import DataError, StageError
from pipeline.genome.columns import need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.standardized import sample_products, standard_values, value_sums
from pipeline.stage import Context, Outcome, Whole, need_numeric
from pipeline.stages.genomics._genotypes import genotypes_in
from pipeline.stages.genomics._matching import Matches
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table


class _Sums(NamedTuple):
    """Of some variants: sums of loading x standardized calls `float64[n, k]`, called variants per person, squares of the loadings."""

    products: Any
    called: Any
    squares: Any
    flipped: int
    matches: Matches


class ProjectComponents(Whole, name="project_components", version=1):
    """Place people on the axes that principal_components found among others, by its table NAME.loadings.

    Variants are met by variant_id and alleles; where ALT and REF have changed places the calls are turned round, and counted; with other
    alleles the loading is not used, and counted. Calls are standardized by the frequencies of the loadings, and a missing one counts as
    their mean. Dosages are used where the table has them. Where loadings have no variant here, each axis is stretched by its squared
    loadings over those used. A row per person: sample_id, pc1, pc2 ..., variants_used; no place for a person without a call.

    Example:
        {use: project_components, from: {genotypes: newcomers, loadings: ancestry.loadings}, as: placed}
    """

    roles = ("genotypes", "loadings")
    counts = Matches.words("loadings")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row per person, with the axes of the loadings."""
        need_genotypes(schemas["genotypes"], ("variant_id", "ref", "alt"), dosages=True)
        need_known(schemas["loadings"], ("variant_id", "ref", "alt", "alt_frequency"), "loadings")
        axes = _axes(schemas["loadings"].columns)
        if not axes:
            raise StageError("the table given as 'loadings' has no columns pc1, pc2 ...; give it NAME.loadings of a principal_components")
        need_numeric(schemas["loadings"], axes)
        columns = {"sample_id": pl.String(), **dict.fromkeys(axes, pl.Float64()), "variants_used": pl.Int64()}
        return {"": Schema(pl.Schema(columns))}

    def prepare(self, *, lean: bool = False) -> None:
        """Load the compiled kernels."""
        import_module("pipeline.kernels.compiled.standardize")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A sum over the parts; the loadings go to each of them."""
        genotypes, submit, name = tables["genotypes"].named(context.name), context.session.submit, context.name
        people = people_of(genotypes)
        loadings = submit(_checked, tables["loadings"].named(name).map(_needed).value(), stage=name)
        sums = genotypes.reduce(_projected, _added, people, loadings)
        placed = submit(_placed, sums, people, loadings, stage=name)
        counts, metrics = (submit(tally, sums, stage=name) for tally in (_tally, _flipped))
        return Outcome({"": Table.of(context.session, name, [placed])}, counts=counts, metrics=metrics)


def _axes(columns: Mapping[str, Any]) -> list[str]:
    """The columns pc1, pc2 ..., in the order of their numbers."""
    return sorted((name for name in columns if re.fullmatch(r"pc[1-9]\d*", name)), key=lambda name: int(name[2:]))


def _needed(loadings: pl.LazyFrame) -> pl.LazyFrame:
    axes = _axes(loadings.collect_schema())
    return loadings.select("variant_id", pl.col("alt_frequency", *axes).cast(pl.Float64), loading_ref="ref", loading_alt="alt")


def _checked(loadings: Part) -> Part:
    """The loadings with their places: a variant and its two alleles named once, a frequency between 0 and 1. DataError else."""
    ref, alt = pl.col("loading_ref"), pl.col("loading_alt")
    alleles = (pl.when(ref < alt).then(one).otherwise(other) for one, other in ((ref, alt), (alt, ref)))
    twice = loadings.frame.filter(pl.struct("variant_id", *(pair.alias(str(i)) for i, pair in enumerate(alleles))).is_duplicated())
    if twice.height:
        raise DataError(f"the loadings name {twice.row(0)[0]!r} with the same alleles more than once; drop_duplicates first.")
    frequency = pl.col("alt_frequency")
    bad = loadings.frame.filter(~((frequency > 0) & (frequency < 1)).fill_null(value=False))
    if bad.height:
        raise DataError(
            f"the loadings give {bad.row(0)[0]!r} an alt_frequency of {bad['alt_frequency'][0]}, and calls are standardized "
            "by one above 0 and below 1; give the table that principal_components gave."
        )
    return Part(loadings.frame.with_row_index("place"))


def _projected(part: Part, people: Part, loadings: Part) -> _Sums:
    """The sums over one part's variants."""
    n, axes = people.frame.height, _axes(loadings.frame.schema)
    variants = part.frame.select("variant_id", "ref", "alt").with_row_index("row")
    met = variants.join(loadings.frame, on="variant_id", maintain_order="left")
    same = (pl.col("ref") == pl.col("loading_ref")) & (pl.col("alt") == pl.col("loading_alt"))
    turned = (pl.col("ref") == pl.col("loading_alt")) & (pl.col("alt") == pl.col("loading_ref"))
    used = met.filter(same | turned).with_columns(turned=turned)
    calls = genotypes_in(part)
    xp = array_module(calls)
    calls = take(calls, used["row"].to_numpy())
    values = standard_values(xp.asarray(used["alt_frequency"].to_numpy()))
    values = xp.where(xp.asarray(used["turned"].to_numpy())[:, None], values[:, [2, 1, 0, 3]], values)
    weights = np.ascontiguousarray(used.select(axes).fill_null(float("nan")).to_numpy())
    products = sample_products(calls, n, values, xp.asarray(weights))
    called = value_sums(calls, n, xp.tile(xp.array([1.0, 1.0, 1.0, 0.0]), (len(calls), 1)))
    matches = Matches.of(variants, met, used, loadings.frame.height)
    return _Sums(to_host(products), to_host(called), (weights**2).sum(axis=0), int(used["turned"].sum()), matches)


def _added(values: list[_Sums]) -> _Sums:
    total = values[0]
    for more in values[1:]:
        total = _Sums(
            total.products + more.products,
            total.called + more.called,
            total.squares + more.squares,
            total.flipped + more.flipped,
            total.matches.plus(more.matches),
        )
    return total


def _placed(sums: _Sums, people: Part, loadings: Part) -> Part:
    """A row per person. Raises DataError where no loading is used, or one meets several variants."""
    sums.matches.check("loadings", loadings.frame["variant_id"])
    axes = _axes(loadings.frame.schema)
    whole = (loadings.frame.select(axes).fill_null(float("nan")).to_numpy() ** 2).sum(axis=0)
    places = sums.products * np.where(sums.squares > 0, whole / np.where(sums.squares > 0, sums.squares, 1), np.nan)
    places[sums.called == 0] = np.nan
    columns = [pl.Series(name, np.ascontiguousarray(places[:, i])).fill_nan(None) for i, name in enumerate(axes)]
    return Part(people.frame.select("sample_id").hstack([*columns, pl.Series("variants_used", sums.called.astype(np.int64))]))


def _tally(sums: _Sums) -> dict[str, int]:
    return sums.matches.counts("loadings")


def _flipped(sums: _Sums) -> dict[str, int]:
    return {"flipped": sums.flipped}
