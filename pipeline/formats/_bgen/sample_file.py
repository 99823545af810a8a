"""Oxford's .sample files, which have the people of a BGEN file. Not a format."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pipeline.errors import InputError
from pipeline.files import exists, read_bytes
from pipeline.formats._plink.bed_files import read_columns
from pipeline.formats._plink.ids import Ids, named
from pipeline.genome.people import sex_of_code
from pipeline.pieces import with_ending


def sample_file(path: str) -> str:
    """The .sample beside a BGEN file, which may not be there."""
    return with_ending(path, ".sample")


def read_sample(path: str | Path, ids: Ids = "iid") -> pl.DataFrame:
    """People of an Oxford .sample file: sample_id (ID_2, or by `ids`), family_id (ID_1), and sex (1, 2, null) where it has that column.

    InputError where its two header lines are missing, a line has another number of fields, or an id stands twice.
    """
    lines = read_bytes(path).decode(errors="replace").splitlines() if exists(path) else []
    names = lines[0].split() if lines else []
    if len(lines) < 2 or len(names) < 2 or not lines[1].split()[:2] == ["0", "0"]:
        raise InputError(f"{path}: is no .sample file, whose first two lines are 'ID_1 ID_2 missing ...' and '0 0 0 ...'")
    text = read_columns(path, ("family_id", "sample_id", *names[2:]), skip=2)
    people = named(path, text.select("sample_id", "family_id", *(name for name in ("sex",) if name in names)), ids)
    if "sex" in people.columns:
        people = people.with_columns(sex_of_code())
    return people


def sample_text(people: pl.DataFrame) -> bytes:
    """A .sample of the people: ID_1 (family_id, else sample_id), ID_2 (sample_id), missing, sex (0 unknown)."""
    names = pl.col("sample_id").cast(pl.String)
    family = pl.col("family_id").cast(pl.String).fill_null("0") if "family_id" in people.columns else names
    sex = pl.col("sex").cast(pl.String).fill_null("0") if "sex" in people.columns else pl.lit("0")
    rows = people.select(family.alias("family"), names, pl.lit("0").alias("missing"), sex.alias("sex"))
    return b"ID_1 ID_2 missing sex\n0 0 0 D\n" + rows.write_csv(include_header=False, separator=" ", quote_style="never").encode()
