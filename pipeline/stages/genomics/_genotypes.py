"""Variants by kind of chromosome, and genotypes of the people who stay, for the quality stages. Not a stage."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.genome.chromosomes import autosomes_of, chromosome_kind, on_autosome
from pipeline.kernels.genotypes import Array, take_samples
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


def autosomal_calls(part: Part, people: pl.DataFrame) -> Array:
    """The packed calls of these people on autosomes; no copy where these are all."""
    calls = part.arrays["calls"]
    names = part.frame.select(pl.col("chromosome").unique()).filter(on_autosome(autosomes=autosomes_of(people)))["chromosome"]
    keep = part.frame["chromosome"].is_in(names.implode())
    return calls if keep.all() else calls[array_module(calls).asarray(keep.fill_null(False).to_numpy())]


def keep_people(part: Part, judged: Part) -> Part:
    """The part with the calls, and the dosages, of those whose `kept` is true."""
    kept = judged.frame["kept"]
    if kept.all():
        return part

    def of_them(name: str, array: Array) -> Array:
        """An array of the people who stay."""
        places = array_module(array).asarray(kept.arg_true().to_numpy())
        return take_samples(array, len(kept), places) if name == "calls" else array[:, places]

    return part.replaced(**{name: of_them(name, array) for name, array in part.arrays.items()})
