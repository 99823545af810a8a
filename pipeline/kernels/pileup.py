"""The bases that reads lay on each position of a stretch of a reference. Of a processor's arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.cigars import Operations, expanded
from pipeline.kernels.diploid_calls import MOST_QUALITY

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

PHRED = 33
ALLELES = b"ACGT"
CODES: Bytes = np.full(256, len(ALLELES), np.uint8)
"""The number of each base's letter; 4 for any other."""
for _number, _pair in enumerate((b"Aa", b"Cc", b"Gg", b"TtUu")):
    CODES[[*_pair]] = _number


class Reads(NamedTuple):
    """Alignments: where each begins (from 0), mapping quality and fragment `[reads]`; bases and qualities side by side, from `offsets`.

    Mates are of one fragment, and so are parts of a read that lie apart; fragments are numbered from 0.
    """

    start: Integers
    mapping_quality: Integers
    fragment: Integers
    bases: Bytes
    qualities: Bytes
    offsets: Integers


class Bases(NamedTuple):
    """Bases on positions of a stretch, one of a fragment at most on each, all `[bases]`.

    `at` counts from the stretch's beginning, `allele` as ALLELES, `quality` is Phred.
    """

    at: Integers
    fragment: Integers
    allele: Integers
    quality: Integers


class Passed(NamedTuple):
    """Positions that reads reach over, the next one with them, without an insertion or a deletion between, all `[passed]`.

    `room` is the least number of bases that the read goes on, on either side, before it ends or has one.
    """

    at: Integers
    fragment: Integers
    quality: Integers
    room: Integers

    def of(self, wanted: NDArray[np.bool_]) -> Passed:
        """Those at some positions `[positions]`."""
        chosen = wanted[self.at]
        return Passed(*(column[chosen] for column in self))


def pile(found: Operations, reads: Reads, low: int, high: int, min_base_quality: int) -> tuple[Bases, Passed]:
    """What aligned operations lay on the positions from `low` to before `high`.

    A base's quality is no better than its read's mapping quality. Where the reads of a fragment overlap it has one base: of like ones the
    qualities add up, of different ones the better counts, less the other; equally good ones are none.
    """
    begin = reads.start[found.read] + found.on_reference
    skipped = np.clip(low - begin, 0, found.length)
    left = np.clip(high - begin, skipped, found.length) - skipped
    inside, which = expanded(skipped, left)
    read, at = found.read[which], begin[which] + inside - low
    place = reads.offsets[read] + found.on_read[which] + inside
    raw = reads.qualities[place].astype(np.int64) - PHRED
    quality = np.minimum(np.minimum(raw, reads.mapping_quality[read]), MOST_QUALITY)
    allele, fragment = CODES[reads.bases[place]].astype(np.int64), reads.fragment[read]
    behind = found.length[which] - 1 - inside
    goes_on = behind > 0
    room = np.minimum(inside + 1, behind)
    passed = Passed(*(column[goes_on] for column in (at, fragment, reads.mapping_quality[read], room)))
    good = (allele < len(ALLELES)) & (raw >= min_base_quality)
    bases = Bases(at[good], fragment[good], allele[good], quality[good])
    twice = _overlapping(found, reads)[bases.fragment]
    alone, shared = (Bases(*(column[which] for column in bases)) for which in (~twice, twice))
    return Bases(*map(np.concatenate, zip(alone, _once(shared, high - low), strict=True))), passed


def _overlapping(found: Operations, reads: Reads) -> NDArray[np.bool_]:
    """Whether reads of each fragment overlap on the reference."""
    end, fragments = reads.start.copy(), int(reads.fragment.max(initial=-1)) + 1
    np.maximum.at(end, found.read, reads.start[found.read] + found.on_reference + found.length)
    first, last = np.full(fragments, np.iinfo(np.int64).max), np.zeros(fragments, np.int64)
    np.minimum.at(first, reads.fragment, reads.start)
    np.maximum.at(last, reads.fragment, end)
    covered = np.bincount(reads.fragment, end - reads.start, minlength=fragments)
    several: NDArray[np.bool_] = (np.bincount(reads.fragment, minlength=fragments) > 1) & (covered > last - first)
    return several


def _once(bases: Bases, width: int) -> Bases:
    """One base of a fragment on a position."""
    key = (bases.fragment * width + bases.at) * len(ALLELES) + bases.allele
    unique, which = np.unique(key, return_inverse=True)
    total = np.bincount(which, bases.quality, minlength=len(unique)).astype(np.int64)
    place = unique // len(ALLELES)
    order = np.lexsort((-total, place))
    place, allele, total = place[order], unique[order] % len(ALLELES), total[order]
    first = np.append(True, place[1:] != place[:-1])[: len(place)]
    follows = np.append(~first[1:], False)[: len(place)]
    rest = np.where(follows, np.append(total[1:], 0)[: len(place)], 0)
    kept = first & ((total > rest) | ~follows)
    quality = np.minimum(total - rest, MOST_QUALITY)
    return Bases(place[kept] % width, place[kept] // width, allele[kept], quality[kept])
