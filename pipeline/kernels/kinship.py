"""KING-robust kinship of all pairs of people, from counts that blocks of variants add up to, and who stays when relatives go.

Manichaikul et al. (2010), Bioinformatics 26:2867-2873, as PLINK 2 has it: of the variants that both of a pair are called for,
0.5 - (4 * opposite homozygotes + heterozygotes of one of the two) / (4 * heterozygotes of that one of the pair who has fewer).

Pairs are `[n (n - 1) / 2]`: those of person 1, then of person 2, ...; the pair of `earlier` < `later` is number
later (later - 1) / 2 + earlier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module
from pipeline.kernels.device.kinship import counted_pairs
from pipeline.kernels.genotypes import Array, flat_calls


def pair_counts(packed: Array, n_samples: int) -> Array:
    """What pairs share, `int32[pairs, 5]`; blocks of variants add up with +.

    Columns: variants that both are called for; both heterozygous; the earlier heterozygous (and both called); the later; homozygous for
    opposite alleles.
    """
    if array_module(packed) is not np:
        return counted_pairs(packed, n_samples)
    from pipeline.kernels.compiled.kinship import add_pair_counts

    counts = np.zeros((n_samples * (n_samples - 1) // 2, 5), np.int32)
    add_pair_counts(flat_calls(packed, n_samples), packed.shape[1], counts)
    return counts


def kinship(counts: Array) -> Array:
    """Kinship of pairs, `float64[pairs]`, from `pair_counts`; NaN where one of a pair is heterozygous nowhere."""
    xp = array_module(counts)
    _, both, earlier, later, opposite = counts.astype(xp.int64).T
    fewer = xp.minimum(earlier, later)
    shares = (4 * opposite + earlier + later - 2 * both) / xp.maximum(4 * fewer, 1)
    return xp.where(fewer > 0, 0.5 - shares, xp.nan)


def pair_members(pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The earlier and the later person, `int64[k]` each, of pairs given by their numbers."""
    later = ((1 + np.sqrt(1 + 8 * pairs.astype(np.float64))) / 2).astype(np.int64)
    # A square root may have been rounded over a whole number.
    later -= later * (later - 1) // 2 > pairs
    later += later * (later + 1) // 2 <= pairs
    return pairs - later * (later - 1) // 2, later


def unrelated(n_samples: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Who stays, `bool[n]`, so that no pair (first[k], second[k]) stays whole: the people that PLINK 2's --king-cutoff keeps.

    While pairs are left: where people are in one pair alone, the partner of the first of them goes; else the person in most pairs, the
    first where several are.
    """
    partners: list[set[int]] = [set() for _ in range(n_samples)]
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        partners[one].add(other)
        partners[other].add(one)
    pairs, kept = np.array([len(known) for known in partners], np.int64), np.ones(n_samples, np.bool_)
    while pairs.any():
        single = np.flatnonzero(pairs == 1)
        leaves = min(partners[single[0]]) if len(single) else int(pairs.argmax())
        kept[leaves], pairs[leaves] = False, 0
        for partner in partners[leaves]:
            partners[partner].discard(leaves)
            pairs[partner] -= 1
    return kept
