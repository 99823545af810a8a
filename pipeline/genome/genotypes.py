"""What a stage on genotypes asks of the table that it reads."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.genome.columns import need_known
from pipeline.stage import need_array
from pipeline.tables.part import Schema

MADE = "a genotype table comes from a vcf, plink, pgen or bgen input"


def need_genotypes(schema: Schema, columns: Sequence[str], *, dosages: bool = False) -> pl.Schema:
    """The columns of the people of a genotype table that has these columns of variants, and calls; with `dosages` either will do.

    Raises StageError for a table without them, or with columns of another kind (a chromosome in numbers).
    """
    array = "alt_dosages" if dosages and "alt_dosages" in schema.arrays else "calls"
    people = need_array(schema, array, "genotypes", made=MADE)
    need_known(schema, columns, "genotypes")
    return people
