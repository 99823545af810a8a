"""Inbred lines of a plant as a PLINK fileset, with some heterozygous calls that they should not have; and traits of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack

LINES, EACH = 60, 12
CHROMOSOMES = ("1", "2", "3", "5", "8", "9", "10")
"""Of the lines' variants, so many on each."""


def write_lines(folder: Path) -> str:
    """Write lines.bed, .bim and .fam; returns the path of the .bed. Of the calls 6 % are heterozygous, then 3 % missing."""
    rng = np.random.default_rng(10)
    names = np.repeat(np.array(CHROMOSOMES), EACH)
    frequency = 0.2 + 0.6 * rng.random((len(names), 1))
    calls = 2 * (rng.random((len(names), LINES)) < frequency).astype(np.uint8)
    calls[rng.random(calls.shape) < 0.06] = 1
    calls[rng.random(calls.shape) < 0.03] = 3
    variants = pl.DataFrame({"chromosome": names}).with_columns(
        pl.int_range(1, pl.len() + 1).mul(1000).alias("base_pair_location"),
        pl.format("v{}", pl.int_range(pl.len())).alias("variant_id"),
        ref=pl.lit("A"),
        alt=pl.lit("C"),
    )
    lines = pl.DataFrame({"sample_id": [f"l{i}" for i in range(LINES)], "sex": np.where(np.arange(LINES) % 2 == 0, 1, 2)})
    write_plink(folder / "lines", variants, lines, [pack(calls)])
    return str(folder / "lines.bed")


def lines_sheet() -> pl.DataFrame:
    """Height and age of every line, and whether it is tall."""
    rng = np.random.default_rng(30)
    values = {name: np.round(10 * rng.random(LINES), 3) for name in ("height", "age")}
    sheet = pl.DataFrame({"sample_id": [f"l{i}" for i in range(LINES)], **values})
    return sheet.with_columns(tall=(pl.col("height") > 5).cast(pl.Int8))
