"""What a stage on genotypes asks of the table that it reads, and whose genotypes they are."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import polars as pl

from pipeline.errors import StageError
from pipeline.genome.columns import need_known
from pipeline.stage import need_array
from pipeline.tables.part import Schema
from pipeline.tables.table import Table

MADE = "a genotype table comes from a vcf, plink, pgen or bgen input"


def need_genotypes(schema: Schema, columns: Sequence[str], *, dosages: bool = False) -> pl.Schema:
    """The columns of the people of a genotype table that has these columns of variants, and calls; with `dosages` either will do.

    Raises StageError for a table without them, or with columns of another kind (a chromosome in numbers).
    """
    array = array_of(schema.arrays) if dosages else "calls"
    if array not in schema.arrays and "alt_dosages" in schema.arrays:
        raise StageError("the table given as 'genotypes' has dosages, and this stage takes calls. Read it with field: calls.")
    people = need_array(schema, array, "genotypes", made=MADE)
    need_known(schema, columns, "genotypes")
    return people


def refuse_genotypes(schema: Schema) -> None:
    """Raise StageError for a table with a row a variant, whose genotypes are no features of people."""
    for array, what in (("calls", "packed genotype calls"), ("alt_dosages", "dosages with a row a variant")):
        if array in schema.arrays:
            raise StageError(f"the table has {what}, which are no features. Use genotype_features to make a row per person of them.")


def array_of(arrays: Container[str]) -> str:
    """Which of the arrays holds the genotypes: dosages where there are some, else packed calls."""
    return "alt_dosages" if "alt_dosages" in arrays else "calls"


def people_of(genotypes: Table) -> Any:
    """The people of a genotype table as a part, or a future of it: those of its dosages, where it has some, else of its calls."""
    return genotypes.axes[array_of(genotypes.axes)].value()
