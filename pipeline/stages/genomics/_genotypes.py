"""Variants by kind of chromosome, and genotypes of the people who stay, for the quality stages. Not a stage."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.genome.chromosomes import autosomes_of, chromosome_kind, on_autosome
from pipeline.genome.genotypes import array_of
from pipeline.kernels.dosages import genotypes_of, hard_calls
from pipeline.kernels.genotypes import Array, packed_width
from pipeline.tables.part import Part


def special_rows(frame: pl.DataFrame, people: pl.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Rows of variants where not everyone has two alleles, by kind of chromosome: x, y, mt, haploid; other for unknown names.

    What a number stands for is as `people`, whose genotypes they are, say.
    """
    names = frame.select(pl.col("chromosome").unique())
    kinds = names.with_columns(kind=chromosome_kind(autosomes=autosomes_of(people)).fill_null("other")).filter(
        ~pl.col("kind").is_in(["autosome", "par"])
    )
    return {
        str(kind): frame["chromosome"].is_in(of_kind["chromosome"].implode(), nulls_equal=True).arg_true().to_numpy().astype(np.int64)
        for (kind,), of_kind in kinds.group_by("kind")
    }


def genotypes_in(part: Part) -> Array:
    """The dosages of a part where it has some, else its packed calls."""
    return part.arrays[array_of(part.arrays)]


def calls_in(part: Part) -> Array:
    """The packed calls of a part: those that it has, else those nearest to its dosages."""
    return part.arrays["calls"] if "calls" in part.arrays else hard_calls(part.arrays["alt_dosages"])


def of_block(part: Part, block: slice) -> Part:
    """The part with the genotypes of a block of neighbouring people, which begins at a multiple of four."""
    columns = slice(block.start // 4, packed_width(block.stop))
    return part.replaced(**{name: array[:, columns if name == "calls" else block] for name, array in part.arrays.items()})


def autosomal_calls(part: Part, people: pl.DataFrame) -> Array:
    """The packed calls of these people on autosomes; no copy where these are all."""
    calls = calls_in(part)
    names = part.frame.select(pl.col("chromosome").unique()).filter(on_autosome(autosomes=autosomes_of(people)))["chromosome"]
    keep = part.frame["chromosome"].is_in(names.implode())
    return calls if keep.all() else calls[array_module(calls).asarray(keep.fill_null(False).to_numpy())]


def keep_people(part: Part, judged: Part) -> Part:
    """The part with the calls, and the dosages, of those whose `kept` is true."""
    kept = judged.frame["kept"]
    if kept.all():
        return part
    places = kept.arg_true().to_numpy()
    return part.replaced(**{name: genotypes_of(array, len(kept), places) for name, array in part.arrays.items()})
