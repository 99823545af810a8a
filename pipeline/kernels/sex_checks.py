"""What calls on the sex chromosomes tell of a person's sex: heterozygous calls on X beside those expected, and calls on Y.

As PLINK 1.9's --check-sex has it (Purcell et al. 2007, Am J Hum Genet 81:559): a man has one X, so his calls there are all homozygous and
F = 1 - heterozygous / expected is 1; a woman's is about 0.
"""

from __future__ import annotations

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array, call_counts, missing_sums, sample_counts, share
from pipeline.kernels.variant_quality import MALE, People

_GRID = 2.0**32  # expected heterozygotes are multiples of its inverse, so that sums of them are exact in any order


def sex_sums(on_x: Array, on_y: Array, people: People) -> Array:
    """For every person, `float64[4, n]`, blocks add up: heterozygous calls on X, calls there, heterozygous ones expected, calls on Y.

    `on_x` and `on_y` are packed calls `uint8[v, w]`. Frequencies are of the founders; a man counts once, and his heterozygous call is none.
    """
    xp = array_module(on_x)
    counts = call_counts(on_x, people.n, people.founders)
    alt, alleles = counts[:, 1] + 2.0 * counts[:, 2], 2.0 * counts[:, :3].sum(axis=1)
    if people.sex is not None:
        men = call_counts(on_x, people.n, people.of_sex(MALE))
        alt, alleles = alt - men[:, 1] - men[:, 2], alleles - men[:, 0] - 2 * men[:, 1] - men[:, 2]
    frequency = share(alt, alleles)
    expected = xp.round(xp.nan_to_num(2 * frequency * (1 - frequency)) * _GRID) / _GRID
    own, y_calls = sample_counts(on_x, people.n), sample_counts(on_y, people.n)[:, :3].sum(axis=1)
    sums = own[:, 1], own[:, :3].sum(axis=1), expected.sum() - missing_sums(on_x, people.n, expected), y_calls
    return xp.stack([xp.asarray(each).astype(xp.float64) for each in sums])
