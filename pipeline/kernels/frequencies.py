"""ALT frequencies as PLINK has them: of the founders, men once on X and alone on Y."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.kernels.dosages import are_dosages, dosage_sums
from pipeline.kernels.genotypes import Array, call_counts, share
from pipeline.kernels.variant_quality import MALE, People


def frequencies(genotypes: Array, people: People, special: Mapping[str, NDArray[np.int64]]) -> Array:
    """ALT frequencies of packed calls `uint8[v, w]` or dosages `float32[v, n]`: `float64[v]`, NaN where no founder has a genotype.

    `special` are rows of X and Y as `variant_quality` has them. A man's heterozygous call on X is half of each allele.
    """
    alt, alleles = _copies(genotypes, people.n, people.founders)
    alleles = 2.0 * alleles
    for name in ("x", "y") if people.sex is not None else ():
        if len(places := special.get(name, ())):
            rows = array_module(genotypes).asarray(places)
            men, number = _copies(genotypes[rows], people.n, people.of_sex(MALE))
            alt[rows] = men / 2 if name == "y" else alt[rows] - men / 2
            alleles[rows] = number if name == "y" else alleles[rows] - number
    return share(alt, alleles)


def _copies(genotypes: Array, n: int, among: NDArray[np.bool_] | None) -> tuple[Array, Array]:
    """Copies of ALT, two a person, and who has a genotype, `float64[v]` and `int64[v]`."""
    if are_dosages(genotypes):
        sums = dosage_sums(genotypes, among)
        return sums.copies.copy(), sums.called
    counts = call_counts(genotypes, n, among)
    return counts[:, 1] + 2.0 * counts[:, 2], counts[:, :3].sum(axis=1)
