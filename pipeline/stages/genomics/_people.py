"""The people of a genotype table as the quality stages count them, and genotypes of those who stay. Not a stage."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import autosome_number, chromosome_kind
from pipeline.kernels.genotypes import Array, take_samples
from pipeline.kernels.variant_quality import FEMALE, MALE, People
from pipeline.tables.part import Part

_PARENTS = ("father_id", "mother_id")


def check_sex(axis: pl.Schema) -> None:
    """Raise StageError where the people have a sex that is not in numbers."""
    if "sex" in axis and not (axis["sex"].is_integer() or axis["sex"] == pl.Null):
        raise StageError(f"the people's column 'sex' is {axis['sex']}; it must be whole numbers, 1 male, 2 female, 0 or null unknown")


def counted_people(frame: pl.DataFrame, founders_only: bool) -> People:
    """Founders, where not everyone is one, and sexes, where there is a column of them.

    A founder has no parent named in father_id or mother_id. Raises DataError where there is none, and for a sex other than 1, 2, 0, null.
    """
    founders = None
    named = [pl.col(name).fill_null("0").is_in(["0", ""]).not_() for name in _PARENTS if name in frame.columns]
    if founders_only and named:
        children = frame.select(pl.any_horizontal(named)).to_series()
        if children.all() and frame.height:
            raise DataError("everyone has a parent named (father_id, mother_id), so there is no founder to count; set founders_only: false")
        founders = (~children).to_numpy() if children.any() else None
    if "sex" not in frame.columns:
        return People(frame.height, founders)
    sex = frame["sex"].fill_null(0)
    wrong = frame.filter(~sex.is_in([0, MALE, FEMALE]))
    if wrong.height:
        raise DataError(f"the sex of {wrong['sample_id'][0]!r} is {wrong['sex'][0]}; it must be 1 (male), 2 (female), 0 or null (unknown)")
    return People(frame.height, founders, sex.cast(pl.Int8).to_numpy())


def special_rows(frame: pl.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Rows of variants where not everyone has two alleles, by kind of chromosome: x, y, mt, and other for names that are not known."""
    names = frame.select(pl.col("chromosome").unique())
    kinds = names.with_columns(kind=chromosome_kind().fill_null("other")).filter(~pl.col("kind").is_in(["autosome", "par"]))
    return {
        str(kind): frame["chromosome"].is_in(of_kind["chromosome"].implode(), nulls_equal=True).arg_true().to_numpy().astype(np.int64)
        for (kind,), of_kind in kinds.group_by("kind")
    }


def autosomal_calls(part: Part) -> Array:
    """The packed calls on autosomes; no copy where these are all."""
    calls = part.arrays["calls"]
    names = part.frame.select(pl.col("chromosome").unique()).filter(autosome_number().is_not_null())["chromosome"]
    keep = part.frame["chromosome"].is_in(names.implode())
    return calls if keep.all() else calls[array_module(calls).asarray(keep.fill_null(False).to_numpy())]


def keep_people(part: Part, judged: Part) -> Part:
    """The part with the calls of those whose `kept` is true."""
    calls, kept = part.arrays["calls"], judged.frame["kept"]
    if kept.all():
        return part
    return part.replaced(calls=take_samples(calls, len(kept), array_module(calls).asarray(kept.arg_true().to_numpy())))
