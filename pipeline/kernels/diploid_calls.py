"""Genotypes of diploid samples from the bases and qualities of reads. Of a processor's arrays.

Likelihoods: Li (2011), Bioinformatics 27:2987-2993, equation 2, with two copies and reads independent of one another: a read of genotype g
(copies of ALT) has REF with probability ((2 - g)(1 - e) + g e) / 2, e what its quality says. Sums are of whole numbers, so that no order
changes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

UNIT = 2.0**-24  # of logarithms, which are added as whole numbers of it
MOST_QUALITY = 60
GENOTYPE_QUALITY_MOST = 99
_TABLE = np.arange(MOST_QUALITY + 1)
_WRONG = np.minimum(10 ** (_TABLE / -10.0), 0.75)
RIGHT_UNITS: Integers = np.rint(np.log(1 - _WRONG) / UNIT).astype(np.int64)
"""Natural logarithm of the probability that a base of each quality is right, in units."""
WRONG_UNITS: Integers = np.rint(np.log(_WRONG) / UNIT).astype(np.int64)
"""The same that it is wrong."""
HALF = np.log(0.5)
_PHRED = 10 / np.log(10)


class Support(NamedTuple):
    """What reads say of an allele: how many have it, and the sums of logarithms, in units, that these are right and that they are wrong."""

    reads: Integers
    right: Integers
    wrong: Integers


class Calls(NamedTuple):
    """Genotypes `int8[sites, samples]` (copies of ALT, -1 without a read), their qualities, and the sites' `float64[sites]`, both Phred."""

    genotype: NDArray[np.int8]
    quality: NDArray[np.int32]
    site_quality: Floats


def support_of(key: Integers, quality: Integers, keys: int) -> Support:
    """Support of each of so many alleles by bases `[bases]` that have them: the allele's number and the base's Phred quality."""
    level = np.clip(quality, 0, MOST_QUALITY)
    sums = (np.bincount(key, table[level].astype(np.float64), minlength=keys) for table in (RIGHT_UNITS, WRONG_UNITS))
    right, wrong = (np.rint(found).astype(np.int64) for found in sums)  # whole numbers below 2^53: exact
    return Support(np.bincount(key, minlength=keys), right, wrong)


def call_genotypes(ref: Support, alt: Support, heterozygosity: float) -> Calls:
    """The likeliest genotypes of samples at sites, from the support of both alleles, all `[sites, samples]`.

    Before reads are seen a sample is heterozygous with probability `heterozygosity`, and has two ALT with half of it. A site's quality is
    that no sample has ALT, samples taken as independent.
    """
    reads = ref.reads + alt.reads
    likelihood = np.stack([(ref.right + alt.wrong) * UNIT, reads * HALF, (ref.wrong + alt.right) * UNIT])
    prior = np.log([1 - 1.5 * heterozygosity, heterozygosity, heterozygosity / 2])
    joint = likelihood + prior[:, None, None]
    total = _log_sum(joint)
    genotype = joint.argmax(axis=0)
    others = np.where(np.arange(3)[:, None, None] == genotype, -np.inf, joint)
    wrong = _log_sum(others) - total
    quality = np.clip(np.rint(-_PHRED * wrong), 0, GENOTYPE_QUALITY_MOST).astype(np.int32)
    none = np.where(reads > 0, joint[0] - total, 0.0)
    site_quality = -_PHRED * none.sum(axis=1)
    called = reads > 0
    return Calls(
        np.where(called, genotype, -1).astype(np.int8), np.where(called, quality, 0).astype(np.int32), np.maximum(site_quality, 0.0)
    )


def _log_sum(values: Floats) -> Floats:
    top = values.max(axis=0)
    found: Floats = top + np.log(np.exp(values - top).sum(axis=0))
    return found
