"""What formats share that write a genotype table as one file of all its people: which tables they take, and their calls. Not a format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError, JobError
from pipeline.format import JoinedOutput
from pipeline.formats._genotypes import ARRAYS
from pipeline.genome.columns import VARIANT
from pipeline.kernels.dosages import call_codes
from pipeline.kernels.genotypes import unpack, variant_blocks
from pipeline.tables.part import Part, Schema

UNKNOWN = ("", ".", "0")  # alleles that say nothing
_LETTERS = "^[ACGTNacgtn]+$"


class GenotypeOutput(JoinedOutput):
    """Base of formats that hold the calls or the dosages of a genotype table; `label` is what a file is called in messages."""

    label: ClassVar[str] = ""

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without genotypes, or without a column of a variant."""
        need_genotypes(self.label, schema, columns)


def need_genotypes(label: str, schema: Schema, columns: Sequence[str]) -> None:
    """Raise JobError for a table without calls and dosages, or without a column of a variant that is written."""
    if not {*ARRAYS.values()} & {*schema.arrays}:
        raise JobError(f"{label} holds genotypes, and this table has none. They come from an input of genotypes (plink, vcf, bgen, pgen).")
    if missing := [name for name in VARIANT if name not in columns]:
        raise JobError(f"{label} needs the column {missing[0]!r}, which is not written here. Needed: {', '.join(VARIANT)}")


def array_of(arrays: Any) -> str:
    """Which of a table's arrays is written: dosages where there are some."""
    return ARRAYS["dosages"] if ARRAYS["dosages"] in arrays else ARRAYS["calls"]


def blocks(part: Part, people: int) -> Iterator[tuple[slice, NDArray[np.uint8], NDArray[np.float32] | None]]:
    """Some variants at a time: which, their calls `uint8[v, people]` (3 missing), and where the part has them dosages, NaN missing.

    Calls of dosages are those within 0.1 of a whole number, as PLINK 2 takes them.
    """
    array = part.arrays[array_of(part.arrays)]
    for rows in variant_blocks(part.rows, 32 * max(people, 1)):
        given = to_host(array[rows])
        if array.dtype == np.uint8:
            yield rows, unpack(given, people, np.uint8), None
        else:
            dosages = given.astype(np.float32)
            yield rows, call_codes(dosages), dosages


def alleles_checked(variants: pl.DataFrame, label: str) -> pl.DataFrame:
    """The variants, an unknown REF as N, an unknown ALT and name as a dot. DataError for a place or an allele that is none."""
    ref, alt = (pl.col(name).cast(pl.String).fill_null(".") for name in ("ref", "alt"))
    name = pl.col("variant_id").cast(pl.String).str.replace_all(r"\s", "_").fill_null(".")
    found = variants.select(
        pl.col("chromosome").cast(pl.String),
        pl.col("base_pair_location").cast(pl.Int64),
        name.alias("variant_id"),
        pl.when(ref.is_in(UNKNOWN)).then(pl.lit("N")).otherwise(ref).alias("ref"),
        pl.when(alt.is_in(UNKNOWN)).then(pl.lit(".")).otherwise(alt).alias("alt"),
    )
    wrong = found.filter(
        pl.col("chromosome").is_null()
        | pl.col("chromosome").str.contains(r"\s|^$")
        | ~(pl.col("base_pair_location") >= 0).fill_null(value=False)
        | ~pl.col("ref").str.contains(_LETTERS)
        | pl.col("alt").str.contains(r"[\s,]")
    )
    if wrong.height:
        row = wrong.row(0, named=True)
        shown = ", ".join(f"{name} {row[name]!r}" for name in VARIANT)
        raise DataError(
            f"{label} cannot hold the variant with {shown}: its place must be known, and REF of A, C, G, T and N. Filter it out."
        )
    return found


def names_checked(people: pl.DataFrame, label: str) -> list[str]:
    """The people's ids. DataError for one with a space, or none, and where there is nobody."""
    names: list[str] = people["sample_id"].cast(pl.String).fill_null("").to_list()
    wrong = next((name for name in names if not name or any(letter.isspace() for letter in name)), None)
    if wrong is not None or not names:
        what = "there is nobody" if not names else f"sample_id {wrong!r} is empty or holds a space"
        raise DataError(f"{label} cannot be written: {what}. Name people by one word each.")
    return names
