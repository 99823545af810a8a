"""Genotypes of a table of variants as the lines of a VCF: GT of two alleles, and DS where the table has dosages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.formats._genotypes_written import alleles_checked, blocks
from pipeline.formats._vcf.site_written import site_texts
from pipeline.genome.columns import VARIANT
from pipeline.tables.part import Part

WORDS = np.array([b"\t0/0", b"\t0/1", b"\t1/1", b"\t./."])


def genotype_lines(part: Part, people: int, fields: Sequence[str] = ()) -> Any:
    """The lines of a part's variants, block by block, as bytes; DataError for a place or an allele that a VCF cannot hold.

    `fields` are columns that are written as QUAL, FILTER and INFO. A dosage has the digits that make it the same number again. AC and AN
    count calls, and of dosages the calls that they are near.
    """
    variants = alleles_checked(part.frame, "a VCF").hstack(site_texts(part.frame, fields))
    for rows, codes, dosages in blocks(part, people):
        called = codes < 3
        some = variants[rows].with_columns(
            AC=pl.Series(np.where(called, codes, 0).sum(axis=1, dtype=np.int64)), AN=pl.Series(2 * called.sum(axis=1, dtype=np.int64))
        )
        field = "GT" if dosages is None else "GT:DS"
        site = "{}\t{}\t{}\t{}\t{}\t{}\t{}\tAC={};AN={}{}\t{}"
        fixed = some.select(pl.format(site, *VARIANT, "QUAL", "FILTER", "AC", "AN", "MORE", pl.lit(field))).to_series()
        texts = _calls(codes) if dosages is None else _dosages(codes, dosages)
        yield b"".join(before.encode() + text + b"\n" for before, text in zip(fixed, texts, strict=True))


def _calls(codes: NDArray[np.uint8]) -> list[bytes]:
    """Each variant's calls, with a tab before each."""
    return [row.tobytes() for row in WORDS[codes]]


def _dosages(codes: NDArray[np.uint8], dosages: NDArray[np.float32]) -> list[bytes]:
    """Each variant's calls and dosages, with a tab before each."""
    texts = pl.Series(dosages.ravel()).fill_nan(None).cast(pl.String).str.strip_suffix(".0").fill_null(".")
    calls = pl.Series(WORDS[codes.ravel()].astype("U4"), dtype=pl.String)
    both = pl.select(pl.concat_str(calls, texts, separator=":")).to_series()
    return [row.encode() for row in both.reshape(dosages.shape).arr.join("")]
