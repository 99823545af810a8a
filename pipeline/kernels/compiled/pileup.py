"""What the bases of reads say on each position, added up read by read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled

if TYPE_CHECKING:
    from pipeline.kernels.cigars import Operations
    from pipeline.kernels.pileup import Bases, Reads

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]


@compiled
def add_bases(
    found: Operations,
    reads: Reads,
    window: tuple[int, int, int, int],
    fragments: tuple[Integers, NDArray[np.bool_]],
    tables: tuple[Bytes, Integers, Integers],
    filled: tuple[Integers, Integers, Integers, Bases],
) -> int:
    """Add up the bases of aligned operations `[operations]` whose quality is at least what is asked for.

    `window` has the first position, that behind the last, the least quality as a letter and the number of samples; `fragments` the sample
    of each `int64[fragments]`, and whether its reads may overlap; `tables` the number of each base's letter `uint8[256]` and the units of
    each quality, right and wrong. `filled` are reads, right and wrong `int64[positions * samples * 4]`, to which is added, and rows of
    bases of fragments whose reads may overlap, which are written there instead. Returns how many those are.
    """
    low, high, least, samples = window
    of_fragment, twice = fragments
    codes, right_units, wrong_units = tables
    count, right, wrong, shared = filled
    alleles, phred, rows = 4, 33, 0
    for op in range(len(found.read)):
        read = found.read[op]
        fragment = reads.fragment[read]
        begin, place = reads.start[read] + found.on_reference[op] - low, reads.offsets[read] + found.on_read[op]
        most, overlaps, sample = min(reads.mapping_quality[read], len(right_units) - 1), twice[fragment], of_fragment[fragment]
        for at in range(max(-begin, 0), min(found.length[op], high - low - begin)):
            allele, raw = codes[reads.bases[place + at]], np.int64(reads.qualities[place + at])
            if allele >= alleles or raw < least:
                continue
            quality = min(raw - phred, most)
            if overlaps:
                shared.at[rows], shared.fragment[rows] = begin + at, fragment
                shared.allele[rows], shared.quality[rows] = allele, quality
                rows += 1
                continue
            key = ((begin + at) * samples + sample) * alleles + allele
            count[key] += 1
            right[key] += right_units[quality]
            wrong[key] += wrong_units[quality]
    return rows


@compiled
def add_shared(
    order: Integers,
    shared: Bases,
    fragments: tuple[Integers, int],
    units: tuple[Integers, Integers],
    sums: tuple[Integers, Integers, Integers],
) -> None:
    """Add bases that may be of one fragment and position to `sums`, one base of each: of like ones the qualities, of different ones the
    better, less the other. `order` brings these together; `fragments` are the sample of each, and how many samples there are."""
    of_fragment, samples = fragments
    right_units, wrong_units = units
    count, right, wrong = sums
    total, start, most = np.zeros(4, np.int64), 0, len(right_units) - 1
    while start < len(order):
        row = order[start]
        at, fragment, stop = shared.at[row], shared.fragment[row], start
        total[:] = -1  # no base
        while stop < len(order) and shared.at[order[stop]] == at and shared.fragment[order[stop]] == fragment:
            allele = shared.allele[order[stop]]
            total[allele] = max(total[allele], 0) + shared.quality[order[stop]]
            stop += 1
        start, best = stop, total.argmax()
        better = total[best]
        total[best] = -1
        rest = total.max()
        if better > rest:
            quality, key = min(better - max(rest, 0), most), (at * samples + of_fragment[fragment]) * 4 + best
            count[key] += 1
            right[key] += right_units[quality]
            wrong[key] += wrong_units[quality]
