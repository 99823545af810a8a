"""What people are called by, where PLINK knows them by family and number in it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field

from pipeline.errors import InputError

Ids = Literal["iid", "fid_iid"]
"""sample_id is the IID, or the FID and the IID with _ between."""


def ids_field() -> Ids:
    """The key of an input."""
    text = "sample_id: the IID, or the FID and the IID with _ between, where families have IIDs alike."
    found: Ids = Field("iid", description=text)
    return found


def named(path: str | Path, people: pl.DataFrame, ids: Ids = "iid") -> pl.DataFrame:
    """People of a file by these ids, their parents too. InputError where an id stands more than once."""
    if ids == "fid_iid" and "family_id" in people.columns:
        own = [name for name in ("sample_id", "father_id", "mother_id") if name in people.columns]
        paste = {name: pl.concat_str(pl.col("family_id").fill_null("0"), name, separator="_") for name in own}
        nobody = {name: pl.lit(False) if name == "sample_id" else pl.col(name).is_in(["0", ""]) for name in own}
        people = people.with_columns(pl.when(nobody[name]).then(name).otherwise(paste[name]).alias(name) for name in own)
    twice = people["sample_id"].filter(people["sample_id"].is_duplicated()).unique(maintain_order=True).to_list()
    if twice:
        families = ids == "iid" and "family_id" in people.columns and not people.select("family_id", "sample_id").is_duplicated().any()
        remedy = "tell people apart by their families, ids: fid_iid" if families else "make them unique (plink2 --update-ids)"
        shown = f"such as {', '.join(twice[:3])}; people are known by this id alone, so {remedy}"
        raise InputError(f"{path}: {len(twice)} sample id(s) ({ids.upper()}) stand more than once, {shown}")
    return people
