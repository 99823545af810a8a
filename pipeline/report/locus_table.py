"""Tables of loci on the report page: one row a lead, with the numbers and genes that its table has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from pipeline.report.pieces import Grid, number_text, p_text
from pipeline.report.scan_data import CHROMOSOME, POSITION

NUMBERS = {"effect_allele_frequency": "frequency", "beta": "beta", "standard_error": "SE", "n": "n"}
ALLELES = ["effect_allele", "other_allele"]
LETTERS = 8  # of a long allele
GENES = ("gene_name", "nearest_gene")
COLUMNS = (*ALLELES, *NUMBERS, *GENES, "gene_distance", "test", "variant_id", "members")
"""Columns that a row of a table of loci may be made of, besides those that every scan has."""


def locus_table(loci: pl.DataFrame, last: Sequence[str], caption: str) -> Grid:
    """A row a locus: trait where there are several, variant, place; alleles, gene, test (unless linear) and numbers if any; p; `last`.

    Needs chromosome, base_pair_location and strength (-log10 p).
    """
    has = {*loci.columns}
    numbers = [name for name in NUMBERS if name in has]
    alleles, gene, test = {*ALLELES} <= has, bool({*GENES} & has), "test" in has and bool({*loci["test"]} - {"linear"})
    several = "trait" in has and loci["trait"].n_unique() > 1
    head = [*["trait"] * several, "variant", "place", *["effect / other"] * alleles, *["gene"] * gene, *["test"] * test]
    rows = []
    for row in loci.iter_rows(named=True):
        pair = " / ".join(_allele(row.get(allele)) for allele in ALLELES)
        texts = [*[pair] * alleles, *[_gene(row)] * gene, *[row.get("test") or ""] * test]
        figures = [_number(name, row[name]) for name in numbers]
        names = [row["trait"]] * several + [row.get("variant_id") or ""]
        rows.append([*names, place_text(row), *texts, *figures, p_text(row["strength"]), *(number_text(row[name]) for name in last)])
    align = "l" * len(head) + "r" * (len(numbers) + 1 + len(last))
    return Grid([*head, *(NUMBERS[name] for name in numbers), "p", *last], align, rows, caption)


def place_text(row: dict[str, Any]) -> str:
    """Chromosome and position of a row: 16:9,220,055."""
    return f"{row[CHROMOSOME]}:{number_text(row[POSITION])}"


def _allele(name: str | None) -> str:
    """An allele; of a long one its first letters and how many there are."""
    return f"{name[:LETTERS]}… ({len(name)})" if name and len(name) > LETTERS + 2 else name or "?"


def _gene(row: dict[str, Any]) -> str:
    """The overlapping genes, else the nearest with its distance."""
    if row.get("gene_name"):
        return ", ".join(str(row["gene_name"]).split(","))
    if not row.get("nearest_gene"):
        return ""
    distance = row.get("gene_distance")
    return (
        f"{row['nearest_gene']} ({abs(distance) / 1000:,.0f} kb)"
        if isinstance(distance, int | float) and distance
        else str(row["nearest_gene"])
    )


def _number(name: str, value: float | None) -> str:
    if value is None or name == "n":
        return number_text(value)
    return f"{value:.3f}" if name == "effect_allele_frequency" else f"{value:.3g}"
