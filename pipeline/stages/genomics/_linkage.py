"""Whose calls linkage disequilibrium is of, chromosome by chromosome."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

from pipeline.genome.chromosomes import ONE_COPY, autosomes_of, chromosome_kind
from pipeline.genome.people import founders, males
from pipeline.kernels.dosages import genotypes_of
from pipeline.kernels.linkage import Samples


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
