"""Pruning by linkage disequilibrium, as PLINK's --indep-pairwise does it.

r^2 comes from sums that are whole numbers, so its comparison with a limit is the same everywhere. Packed calls, or dosages, may be NumPy
or CuPy arrays; positions and decisions lie on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.backend.launch import blocks_for
from pipeline.kernels.device.linkage import linked_pairs
from pipeline.kernels.dosages import alt_frequencies, are_dosages, hard_calls
from pipeline.kernels.genotypes import BLOCK_BYTES, Array, call_counts, pack
from pipeline.kernels.linkage import Bools, Samples, without_haploid_heterozygotes

MORE = 1 + 2.0**-44
"""What is larger must be larger by this factor (PLINK 2's tolerance against rounding)."""

_WORDS = 8  # planes are a multiple of so many words, for the widest registers


@dataclass(frozen=True)
class PruneRule:
    """A window of `size` variants that moves on by `step`, or of `size` base pairs that moves by as little as it can; the limit of r^2."""

    size: int
    step: int
    r2: float
    by_position: bool


@dataclass(frozen=True)
class Pruned:
    """What pruning found of v variants: `removed` and, of these, `constant` (they do not vary among the called), `bool[v]` each.

    `start` is the first variant of the window that waits for more variants, and only what lies before it is settled; `judged` variants
    have been compared with one another; `apart` says whether variant `start` is too far from the one before it to share a window.
    """

    removed: Bools
    constant: Bools
    start: int = 0
    judged: int = 0
    apart: bool = True


@dataclass(frozen=True)
class _Chromosome:
    """Packed calls `uint8[v, w]` in order of `positions: int64[v]`, and the frequency of the commoner allele where calls do not tell it."""

    packed: Array
    positions: NDArray[np.int64]
    major: NDArray[np.float64]


def prune(
    genotypes: Array, positions: NDArray[np.int64], samples: Samples, rule: PruneRule, before: Pruned | None = None, final: bool = True
) -> Pruned:
    """Which variants of one chromosome, calls `uint8[v, w]` or dosages `float32[v, n]`, in order of `positions: int64[v]`, are in linkage.

    PLINK's --indep-pairwise in the order of 2.00a3.5: within a window the pairs of variants in order of the first, then the second; of a
    pair above the limit the one with the commoner major allele goes, else the later one, and the next first variant is taken; again until
    nothing changes. A variant that does not vary goes too, unless no other could share a window with it. Of dosages, r^2 is of the calls
    nearest to them, and frequencies are their own.

    A chromosome may come in pieces: `before` is what the last piece gave, cut to its variants from `start` on, which stand before the new
    ones here; `final` says that no more come.
    """
    count, xp = len(genotypes), array_module(genotypes)
    flags = np.zeros((2, count), np.bool_)
    judged = 0
    if before is not None:
        judged = before.judged - before.start
        flags[0, : len(before.removed) - before.start] = (before.removed & ~before.constant)[before.start :]
    walk = _walk_compiled if xp is np else _walk
    start, judged = walk(_chromosome(genotypes, positions, samples), samples, rule, flags, (judged, final))
    gaps = np.diff(positions) > rule.size if rule.by_position else np.zeros(max(0, count - 1), np.bool_)
    apart = np.concatenate([[before is None or before.apart], gaps, [final]])[: count + 1]
    removed, constant = flags[0], flags[1] & ~(apart[:count] & apart[1:])
    return Pruned(removed | constant, constant, start, judged, bool(apart[start]))


def _chromosome(genotypes: Array, positions: NDArray[np.int64], samples: Samples) -> _Chromosome:
    if not are_dosages(genotypes):
        return _Chromosome(genotypes, positions, np.empty(0))
    frequency = to_host(alt_frequencies(genotypes, samples.count))
    return _Chromosome(hard_calls(genotypes), positions, np.maximum(frequency, 1 - frequency))


def _walk_compiled(chromosome: _Chromosome, samples: Samples, rule: PruneRule, flags: Bools, progress: tuple[int, bool]) -> tuple[int, int]:
    from pipeline.kernels.compiled.linkage_pruning import prune_windows

    numbers = (rule.size, rule.step, rule.by_position, rule.r2 * MORE, MORE, samples.count)
    known = np.require(chromosome.positions, np.int64, ["C", "W"]), chromosome.major  # read-only ones would be compiled for apart
    return prune_windows(np.ascontiguousarray(chromosome.packed), known, _masks(samples), numbers, flags, progress)


def _masks(samples: Samples) -> NDArray[np.uint64]:
    """Planes `uint64[2, words]` of all people, and of those whose heterozygous calls are missing, in the compiled kernel's order."""
    flags = np.zeros((2, samples.count), np.uint8)
    flags[0] = 1
    flags[1] = 0 if samples.haploid is None else samples.haploid
    width = 16 * _WORDS * -(-samples.count // (64 * _WORDS))
    padded = np.zeros((2, width), np.uint8)
    padded[:, : -(-samples.count // 4)] = pack(flags)
    words = padded.view(np.uint64)
    return words[:, ::2] | words[:, 1::2] << np.uint64(1)


def _walk(chromosome: _Chromosome, samples: Samples, rule: PruneRule, flags: Bools, progress: tuple[int, bool]) -> tuple[int, int]:
    """The plain version of the compiled walk: pairs above the limit by whole numbers, then the windows over these pairs alone."""
    judged, final = progress
    packed, positions = chromosome.packed, chromosome.positions
    major, flags[1] = _frequencies(packed, samples)
    major = chromosome.major if len(chromosome.major) else major
    partners = _linked_pairs(packed, positions, samples, rule)
    for first in range(judged):  # these were compared with one another in the piece before
        partners[first] = [second for second in partners.get(first, []) if second >= judged]
    removed, frequencies = flags[0].tolist(), major.tolist()
    active: list[int] = []
    filled, start = 0, 0
    for start, end, waits in _windows(positions, rule, final):
        if waits:
            break
        active = [first for first in active if first >= start] + [first for first in range(max(filled, start), end) if first in partners]
        while _compare(active, partners, removed, frequencies, end):
            pass
        filled = judged = end
    else:
        start = len(packed)
    flags[0] = removed
    return start, max(judged, start)


def _compare(active: list[int], partners: dict[int, list[int]], removed: list[bool], major: list[float], end: int) -> bool:
    """One pass over a window: each first variant with its next partner before `end` that is still there; whether any was removed."""
    changed = False
    for first in active:
        later = partners[first]
        while not removed[first] and later and later[0] < end:
            second = later.pop(0)
            if not removed[second]:
                removed[first if major[first] > major[second] * MORE else second] = changed = True
                break
    return changed


def _windows(positions: NDArray[np.int64], rule: PruneRule, final: bool) -> Iterator[tuple[int, int, bool]]:
    """Every window's begin and end, and whether it waits for variants that are still to come."""
    start, count = 0, len(positions)
    while start < count:
        end = int(np.searchsorted(positions, positions[start] + rule.size, "right")) if rule.by_position else start + rule.size
        waits = not final and (end > count or (end == count and rule.by_position))
        end = min(end, count)
        yield start, end, waits
        if waits or (final and end == count):
            return
        following = int(np.searchsorted(positions, positions[end] - rule.size)) if rule.by_position else start + rule.step
        start = max(start + 1, following)


def _frequencies(packed: Array, samples: Samples) -> tuple[NDArray[np.float64], Bools]:
    """Frequency of the commoner allele `float64[v]`, all calls counted, and the variants that do not vary once hets of haploids are out."""
    ref, het, alt, _ = to_host(call_counts(packed, samples.count)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        major = 0.5 + np.abs(ref - alt) / (2.0 * (ref + het + alt))
    if samples.haploid is not None:
        ref, het, alt, _ = to_host(call_counts(without_haploid_heterozygotes(packed, samples), samples.count)).T
    return major, (ref + alt == 0) | (np.abs(ref - alt) == ref + het + alt)


def _linked_pairs(packed: Array, positions: NDArray[np.int64], samples: Samples, rule: PruneRule) -> dict[int, list[int]]:
    """Of every variant that has some, the later ones that a window can hold beside it and whose r^2 is above the limit."""
    count, xp = len(packed), array_module(packed)
    if rule.by_position:
        ends = np.searchsorted(positions, positions + rule.size, "right").astype(np.int64)
    else:
        ends = np.minimum(np.arange(count) + rule.size, count)
    packed = xp.ascontiguousarray(without_haploid_heterozygotes(packed, samples))
    padding = 4 * packed.shape[1] - samples.count
    found: dict[int, list[int]] = {}
    start = 0
    while start < count:
        # Rows as wide as the widest window, as many as a block of memory holds; the later partners of the last row stand behind it.
        most = max(1, int((ends[start:] - np.arange(start, count)).max()) - 1)
        stop = min(count, start + max(1, BLOCK_BYTES // most))
        flags = xp.empty((stop - start, most), xp.uint8)
        rows = packed[start : int(ends[stop - 1])]
        kernel = linked_pairs.plain if xp is np else partial(linked_pairs, blocks_for(flags.size, linked_pairs.threads))
        kernel(rows, xp.asarray(ends[start:stop] - start), padding, rule.r2 * MORE, flags)
        first, offset = np.nonzero(to_host(flags))
        names, begins = np.unique(first, return_index=True)
        partners = np.split(start + 1 + first + offset, begins[1:])
        found |= {int(name) + start: later.tolist() for name, later in zip(names, partners, strict=False)}
        start = stop
    return found
