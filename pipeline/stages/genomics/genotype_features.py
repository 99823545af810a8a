"""Chosen variants as features: one row per person, one number per variant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device, to_host
from pipeline.errors import DataError
from pipeline.genome.columns import need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.kernels.genotypes import unpack
from pipeline.stage import Context, Outcome, Whole
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class GenotypeFeatures(Whole, name="genotype_features", version=1):
    """Turn chosen variants into a row per person with the number of ALT alleles of each, or its dosage, null where there is none.

    The variants are those that the second table names in variant_id. They ride along as the array `dosages`, whose columns a model and a
    Parquet file name by variant_id (with :ref:alt behind it where an id stands for several); NAME.variants describes them.

    Example:
        {use: genotype_features, from: {genotypes: passed, variants: best}, as: features}
    """

    roles = ("genotypes", "variants")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """sample_id, and the dosages."""
        need_genotypes(schemas["genotypes"], ("variant_id", "ref", "alt"), dosages=True)
        need_known(schemas["variants"], ("variant_id",), "variants")
        return {"": Schema(pl.Schema({"sample_id": pl.String()}), {"dosages": schemas["genotypes"].columns})}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Filter the variants, gather what is left, and turn it on its side."""
        genotypes, session, name = tables["genotypes"].named(context.name), context.session, context.name
        chosen = tables["variants"].named(name).map(_ids).value()
        few = genotypes.map_parts(_chosen, chosen).value()
        axis = Table.of(session, name, [session.submit(_axis, few, stage=name)])
        features = session.submit(_features, session.backend, few, people_of(genotypes), stage=name)
        return Outcome({"": Table.of(session, name, [features], axes={"dosages": axis})})


def _ids(variants: pl.LazyFrame) -> pl.LazyFrame:
    return variants.select("variant_id").unique()


def _chosen(part: Part, chosen: Part) -> Part:
    rows = part.frame.with_row_index("__row__").filter(pl.col("variant_id").is_in(chosen.frame["variant_id"].to_list()))
    return part.with_frame(rows)


def _axis(few: Part) -> Part:
    if few.frame.height == 0:
        raise DataError("none of the chosen variants is in the genotype table. Are their ids written alike?")
    several = pl.col("variant_id").is_duplicated()
    full = pl.concat_str("variant_id", "ref", "alt", separator=":")
    named = few.frame.with_columns(pl.when(several).then(full).otherwise("variant_id").alias("variant_id"))
    twice = named.filter(pl.col("variant_id").is_duplicated())["variant_id"]
    if len(twice):
        times = int((twice == twice[0]).sum())
        raise DataError(
            f"the genotype table has {twice[0]!r} {times} times, and a feature needs a name of its own. "
            "Use drop_duplicates by variant_id, ref and alt before."
        )
    return Part(named)


def _features(backend: str, few: Part, people: Part) -> Part:
    dosages = few.arrays.get("alt_dosages")
    if dosages is None:
        dosages = unpack(few.arrays["calls"], people.frame.height, np.float32, missing=float("nan"))
    array = to_device(np.ascontiguousarray(to_host(dosages).T), "gpu" if backend == "gpu" else "cpu")
    return Part(people.frame.select("sample_id"), {"dosages": array})
