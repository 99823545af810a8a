"""A small herd of cattle, whose chromosomes 23 to 29 are autosomes, as a PLINK fileset; and traits of its animals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

ANIMALS, EACH = 60, 12
CHROMOSOMES = ("1", "22", "23", "24", "25", "26", "29", "30", "31", "33")
"""Of the herd's variants, so many on each; 30 is X, 31 Y and 33 MT."""


def write_herd(folder: Path) -> str:
    """Write herd.bed, .bim and .fam; returns the path of the .bed.

    Males are half of the herd; calls are what an animal of its sex can have, 3 % of them missing.
    """
    rng = np.random.default_rng(29)
    names = np.repeat(np.array(CHROMOSOMES), EACH)
    male = np.arange(ANIMALS) % 2 == 0
    frequency = 0.2 + 0.6 * rng.random((len(names), 1))
    alleles = rng.random((2, len(names), ANIMALS)) < frequency
    calls = alleles.sum(axis=0).astype(np.uint8)
    one = 2 * alleles[0].astype(np.uint8)
    calls = np.where((names == "30")[:, None] & male, one, calls)
    calls = np.where((names == "31")[:, None], np.where(male, one, 3), calls)
    calls = np.where((names == "33")[:, None], one, calls)
    calls[rng.random(calls.shape) < 0.03] = 3
    variants = pl.DataFrame({"chromosome": names}).with_columns(
        pl.int_range(1, pl.len() + 1).mul(1000).alias("base_pair_location"),
        pl.format("v{}", pl.int_range(pl.len())).alias("variant_id"),
        ref=pl.lit("A"),
        alt=pl.lit("C"),
    )
    animals = pl.DataFrame({"sample_id": [f"a{i}" for i in range(ANIMALS)], "sex": np.where(male, 1, 2)})
    write_plink(folder / "herd", variants, animals, [pack(calls.astype(np.uint8))])
    return str(folder / "herd.bed")


def herd_sheet() -> pl.DataFrame:
    """Milk and age of every animal."""
    rng = np.random.default_rng(30)
    values = {name: np.round(10 * rng.random(ANIMALS), 3) for name in ("milk", "age")}
    return pl.DataFrame({"sample_id": [f"a{i}" for i in range(ANIMALS)], **values})
