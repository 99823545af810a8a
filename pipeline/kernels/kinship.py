"""KING-robust kinship of pairs of people, tile by tile of the square of all pairs, and who stays when relatives go.

Manichaikul et al. (2010), Bioinformatics 26:2867-2873, as PLINK 2 has it: of the variants that both of a pair are called for,
0.5 - (4 * opposite homozygotes + heterozygotes of one of the two) / (4 * heterozygotes of that one of the pair who has fewer).

A tile is the pairs of some people with others, or of some among themselves. It is counted over all variants at once, and the pairs of less
kinship than is asked for are gone with it: nothing that is held grows with the square of the people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.device import kinship as on_device
from pipeline.kernels.genotypes import Array, flat_calls


class Bits(NamedTuple):
    """The calls of some people as two planes of bits, low and high ones, along the variants."""

    planes: Array
    """`uint64[people and more, 2, words]` in a CPU's memory, `uint32[2, words, people and more]` on a GPU."""
    people: int


class Near(NamedTuple):
    """Pairs of people, as places `int64[k]` among the later and among the earlier ones, in order of both; in the host's memory."""

    later: NDArray[np.int64]
    earlier: NDArray[np.int64]
    counts: NDArray[np.int32]
    """`int32[k, 5]`: variants that both are called for; both heterozygous; the earlier heterozygous (and both called); the later;
    homozygous for opposite alleles."""
    kinship: NDArray[np.float64]
    unknown: int
    """Pairs, of all of the tile, without a kinship."""
    apart: int
    """Pairs, of all of the tile, that are not called for any same variant."""


def sample_bits(packed: Array, n_samples: int) -> Bits:
    """The calls of a block of variants as bits."""
    if array_module(packed) is not np:
        return Bits(on_device.planes_of(packed), n_samples)
    from pipeline.kernels.compiled.kinship import AT_ONCE, fill_bits

    planes = np.empty((-(-n_samples // AT_ONCE) * AT_ONCE, 2, -(-len(packed) // 64)), np.uint64)
    fill_bits(flat_calls(packed, n_samples), packed.shape[1], planes)
    return Bits(planes, n_samples)


def joined(blocks: Sequence[Bits]) -> Bits:
    """The bits of several blocks of variants of the same people, one after another."""
    if len(blocks) == 1:
        return blocks[0]
    xp = array_module(blocks[0].planes)
    return Bits(xp.concatenate([block.planes for block in blocks], axis=2 if xp is np else 1), blocks[0].people)


def near(later: Bits, earlier: Bits | None, least: float) -> Near:
    """The pairs of later people with earlier ones, or (None) among themselves, of a kinship of `least` or more.

    Raises ValueError where their bits are not of the same blocks of variants.
    """
    axis = 2 if array_module(later.planes) is np else 1
    if earlier is not None and earlier.planes.shape[axis] != later.planes.shape[axis]:
        raise ValueError(
            f"bits of {later.planes.shape[axis]} and of {earlier.planes.shape[axis]} words of variants: join the same blocks of both"
        )
    pairs, counts = (_counted if array_module(later.planes) is np else _counted_on_device)(later, earlier, least)
    values = kinship(counts)
    close = values >= least
    chosen = pairs[close]
    return Near(chosen[:, 0], chosen[:, 1], counts[close], values[close], int(np.isnan(values).sum()), int((counts[:, 0] == 0).sum()))


def in_order(tiles: Sequence[Near]) -> Near:
    """The pairs of some tiles as of one, by the later person, then the earlier."""
    if not tiles:
        return Near(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 5), np.int32), np.empty(0), 0, 0)
    later, earlier = (np.concatenate([tile[side] for tile in tiles]) for side in (0, 1))
    order = np.lexsort((earlier, later))
    counts, values = np.concatenate([tile.counts for tile in tiles]), np.concatenate([tile.kinship for tile in tiles])
    unknown, apart = sum(tile.unknown for tile in tiles), sum(tile.apart for tile in tiles)
    return Near(later[order], earlier[order], counts[order], values[order], unknown, apart)


def _counted(later: Bits, earlier: Bits | None, least: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Pairs that may be near, or have no kinship, and their counts, in order."""
    from pipeline.kernels.compiled.kinship import count_shared, maybe_near

    other = later if earlier is None else earlier
    pairs = maybe_near(later.planes, other.planes, (later.people, other.people), earlier is None, least)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    counts = np.empty((len(pairs), 5), np.int32)
    count_shared(later.planes, other.planes, pairs, counts)
    return pairs, counts


def _counted_on_device(later: Bits, earlier: Bits | None, least: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """As `_counted`; counts of all pairs of the tile are there for a moment."""
    other = later if earlier is None else earlier
    size = later.people, other.people
    pairs, counts = on_device.counted_pairs(later.planes, other.planes, size, least, same=earlier is None)
    return np.stack(np.unravel_index(to_host(pairs), size), axis=1), to_host(counts)


def kinship(counts: Array) -> Array:
    """Kinship of pairs, `float64[k]`, from counts `int32[k, 5]` as `Near` has them; NaN where one of a pair is heterozygous nowhere."""
    xp = array_module(counts)
    _, both, earlier, later, opposite = counts.astype(xp.int64).T
    fewer = xp.minimum(earlier, later)
    shares = (4 * opposite + earlier + later - 2 * both) / xp.maximum(4 * fewer, 1)
    return xp.where(fewer > 0, 0.5 - shares, xp.nan)


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
