"""Quality of imputed variants, as PLINK 2 has it: frequencies and MaCH's R2 of the dosages, the rest of the hard calls nearest to them.

MaCH's R2 (Li et al. 2010, Genet Epidemiol 34:816-834) is the variance of dosages over that of genotypes in Hardy-Weinberg proportions,
2f(1 - f): 1 where all are certain, 0 where imputation knew no more than the frequency. It is of everyone, founder or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.kernels.dosages import DosageSums, dosage_sums, hard_calls
from pipeline.kernels.frequencies import frequencies
from pipeline.kernels.genotypes import Array, share
from pipeline.kernels.variant_quality import MALE, People, Quality, variant_quality


@dataclass(frozen=True)
class DosageQuality(Quality):
    """Of every variant, `float64[v]`; NaN where there is none."""

    mach_r2: Array


def dosage_quality(
    dosages: Array, people: People, special: Mapping[str, NDArray[np.int64]], *, midp: bool = False, everywhere: bool = False
) -> DosageQuality:
    """Quality of dosages `float32[v, n]`; `special` and the rest as `variant_quality` has them.

    mach_r2 is of autosomes and, where sexes are known, of the men on Y.
    """
    xp = array_module(dosages)
    called = variant_quality(hard_calls(dosages), people, special, midp=midp, everywhere=everywhere)
    certain, alt = _mach_r2(dosage_sums(dosages), copies=2), frequencies(dosages, people, special)
    rows = {name: xp.asarray(places) for name, places in special.items() if len(places)}
    for places in rows.values():
        certain[places] = xp.nan
    if people.sex is not None and "y" in rows:
        certain[rows["y"]] = _mach_r2(dosage_sums(dosages[rows["y"]], people.sex == MALE), copies=1)
    return DosageQuality(called.call_rate, alt, xp.minimum(alt, 1 - alt), called.hwe_p_value, certain)


def _mach_r2(sums: DosageSums, copies: int) -> Array:
    """The variance of dosages over the one expected of people with so many copies; NaN where all or none are ALT."""
    frequency, mean = sums.frequency, share(sums.copies, sums.called)
    xp, expected = array_module(mean), (4 / copies) * frequency * (1 - frequency)
    variance = xp.maximum(share(sums.squares, sums.called) - mean**2, 0)
    return xp.where(expected > 0, variance / xp.where(expected > 0, expected, 1), xp.nan)
