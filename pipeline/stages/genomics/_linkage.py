"""Whose calls linkage disequilibrium is of, chromosome by chromosome."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.genome.chromosomes import ONE_COPY, autosomes_of, chromosome_kind
from pipeline.genome.people import founders, males
from pipeline.kernels.dosages import genotypes_of
from pipeline.kernels.linkage import Samples

UNPLACED = "0"
"""PLINK's name for no chromosome."""


def chosen_calls(calls: Any, people: pl.DataFrame, chromosome: str) -> tuple[Any, Samples]:
    """The calls, or dosages, that r^2 is of on a chromosome, and of whom: founders, on X women twice, on Y men; one copy is marked.

    Raises DataError where nobody is a founder, or a sex is none.
    """
    founder, male = founders(people, "r^2 is of founders, so drop these columns to use all"), males(people)
    kind = kind_of(chromosome, autosomes_of(people))
    index = np.flatnonzero(founder & male if kind == "y" else founder)
    haploid = male[index] if kind == "x" else np.full(len(index), kind in ONE_COPY)
    if kind == "x" and haploid.any():
        index, haploid = np.concatenate([index, index[~haploid]]), np.concatenate([haploid, np.zeros(int((~haploid).sum()), np.bool_)])
    everybody = np.array_equal(index, np.arange(people.height))
    chosen = calls if everybody else genotypes_of(calls, people.height, index)
    return chosen, Samples(len(index), haploid if haploid.any() else None)


@cache
def kind_of(chromosome: str, autosomes: int) -> str | None:
    """How a chromosome of this name is inherited in a species of so many autosomes, as `chromosome_kind` says."""
    kind: str | None = pl.DataFrame({"chromosome": [chromosome]}).select(chromosome_kind(autosomes=autosomes)).item()
    return kind


def stretches(variants: pl.DataFrame) -> Iterator[tuple[str | None, int, int]]:
    """Chromosome, first row and one past the last row of neighbours on one chromosome."""
    names = variants["chromosome"]
    begins = [0, *(names.ne_missing(names.shift()).arg_true().to_list()[1:]), len(names)] if len(names) else []
    for low, high in pairwise(begins):
        yield names[low], low, high


def last_position(chromosome: str, variants: pl.DataFrame, before: int | None) -> int:
    """The last position, or `before` where there is none. Raises DataError where one is below the one before it, or null."""
    column = pl.concat([pl.Series([before] if before is not None else [], dtype=pl.Int64), variants["base_pair_location"].cast(pl.Int64)])
    falls = (column.diff() < 0).arg_true()
    if column.null_count() or len(falls):
        what = "a variant has none" if column.null_count() else f"{column[int(falls[0])]} comes after {column[int(falls[0]) - 1]}"
        raise DataError(
            f"the positions on chromosome {chromosome!r} are not in order: {what}. Put a sort by chromosome and "
            "base_pair_location before this stage."
        )
    return int(column[-1])
