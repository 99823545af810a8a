"""What a stage on genotypes asks of the table that it reads, and whose genotypes they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from pipeline.genome.columns import need_known
from pipeline.stage import need_array
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

MADE = "a genotype table comes from a vcf, plink, pgen or bgen input"


def need_genotypes(schema: Schema, columns: Sequence[str], *, dosages: bool = False) -> pl.Schema:
    """The columns of the people of a genotype table that has these columns of variants, and calls; with `dosages` either will do.

    Raises StageError for a table without them, or with columns of another kind (a chromosome in numbers).
    """
    array = "alt_dosages" if dosages and "alt_dosages" in schema.arrays else "calls"
    people = need_array(schema, array, "genotypes", made=MADE)
    need_known(schema, columns, "genotypes")
    return people


def people_of(genotypes: Table) -> Any:
    """The people of a genotype table as a part, or a future of it: those of its dosages, where it has some, else of its calls."""
    return genotypes.axes["alt_dosages" if "alt_dosages" in genotypes.axes else "calls"].value()
