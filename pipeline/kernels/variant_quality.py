"""Call rate, allele frequency and Hardy-Weinberg test of variants, on the sex chromosomes as PLINK 2 counts them.

Autosomes and the pseudoautosomal regions have two alleles a person. On X a man has one allele (a heterozygous call of his is half of
each) and whoever's sex is unknown has two; on Y only men count, with one allele each. Frequencies and tests are of the founders, call rates
of everyone. X is tested by the women and the men without heterozygous calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array, call_counts, share
from pipeline.kernels.hardy_weinberg import hwe_exact
from pipeline.kernels.hardy_weinberg_x import hwe_x_exact

MALE, FEMALE = 1, 2


@dataclass(frozen=True)
class People:
    """Who is counted: `n` people, the founders among them (`bool[n]`, None: all), their sex (`int8[n]`: 1, 2, 0; None: nobody's known)."""

    n: int
    founders: NDArray[np.bool_] | None = None
    sex: NDArray[np.int8] | None = None

    def of_sex(self, sex: int) -> NDArray[np.bool_]:
        """The founders of that sex, `bool[n]`."""
        assert self.sex is not None
        alike: NDArray[np.bool_] = self.sex == sex
        return alike if self.founders is None else alike & self.founders


@dataclass(frozen=True)
class Quality:
    """Of every variant, `float64[v]`; NaN where there is none."""

    call_rate: Array
    alt_frequency: Array
    minor_allele_frequency: Array
    hwe_p_value: Array


def variant_quality(
    packed: Array, people: People, special: Mapping[str, NDArray[np.int64]], *, midp: bool = False, everywhere: bool = False
) -> Quality:
    """Quality of packed calls; `special` has the rows of chromosomes that are not autosomes: x, y, and the rest by any name.

    Those are not tested, but X where sexes are known. `everywhere` tests them too, as if everyone had two copies.
    """
    xp = array_module(packed)
    every = call_counts(packed, people.n)
    founders = every if people.founders is None else call_counts(packed, people.n, people.founders)
    called, possible = people.n - every[:, 3], xp.full(len(every), people.n)
    alt = (founders[:, 1] + 2 * founders[:, 2]).astype(xp.float64)
    alleles = 2.0 * (founders[:, 0] + founders[:, 1] + founders[:, 2])
    p_value = hwe_exact(founders[:, 0], founders[:, 1], founders[:, 2], midp)
    rows = {name: xp.asarray(places) for name, places in special.items() if len(places)}
    for places in () if everywhere else rows.values():
        p_value[places] = xp.nan
    if people.sex is not None and "x" in rows:
        men, women = (call_counts(packed[rows["x"]], people.n, people.of_sex(sex)) for sex in (MALE, FEMALE))
        alt[rows["x"]] -= _alt_of_men(men)
        alleles[rows["x"]] -= men[:, :3].sum(axis=1)
        p_value[rows["x"]] = hwe_x_exact(xp.concatenate([women[:, :3], men[:, [0, 2]]], axis=1), midp)
    if people.sex is not None and "y" in rows:
        men = call_counts(packed[rows["y"]], people.n, people.of_sex(MALE))
        alt[rows["y"]], alleles[rows["y"]] = _alt_of_men(men), men[:, :3].sum(axis=1)
        called[rows["y"]] = call_counts(packed[rows["y"]], people.n, people.sex == MALE)[:, :3].sum(axis=1)
        possible[rows["y"]] = int((people.sex == MALE).sum())
    return Quality(share(called, possible), share(alt, alleles), share(xp.minimum(alt, alleles - alt), alleles), p_value)


def _alt_of_men(counts: Array) -> Array:
    """ALT alleles of men, who have one each."""
    return counts[:, 1] / 2 + counts[:, 2]
