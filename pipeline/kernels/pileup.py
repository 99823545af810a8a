"""The bases that reads lay on each position of a stretch of a reference. Of a processor's arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.cigars import Operations, expanded
from pipeline.kernels.diploid_calls import MOST_QUALITY, RIGHT_UNITS, WRONG_UNITS, Support

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
    """Reads over positions that are asked for, and over the next one with them, without a gap between, all `[passed]`.

    `site` is the number of the position; `room` the least number of bases that the read goes on, on either side, before it ends or has
    a gap.
    """

    site: Integers
    fragment: Integers
    quality: Integers
    room: Integers


def pile(found: Operations, reads: Reads, low: int, high: int, min_base_quality: int) -> Bases:
    """What aligned operations lay on the positions from `low` to before `high`.

    A base's quality is no better than its read's mapping quality. Where the reads of a fragment overlap it has one base: of like ones the
    qualities add up, of different ones the better counts, less the other; equally good ones are none.
    """
    begin = reads.start[found.read] + found.on_reference
    skipped = np.clip(low - begin, 0, found.length)
    left = np.clip(high - begin, skipped, found.length) - skipped
    place, which = expanded(reads.offsets[found.read] + found.on_read + skipped, left)
    letter, raw = CODES[reads.bases[place]], reads.qualities[place]
    good = (letter < len(ALLELES)) & (raw >= min_base_quality + PHRED)
    place, which, allele = place[good], which[good], letter[good].astype(np.int64)
    at = place + (begin - reads.offsets[found.read] - found.on_read - low)[which]
    read = found.read[which]
    quality = np.minimum(raw[good] - np.uint8(PHRED), np.minimum(reads.mapping_quality, MOST_QUALITY)[read])
    bases = Bases(at, reads.fragment[read], allele, quality)
    twice = _overlapping(found, reads)[bases.fragment]
    if not twice.any():
        return bases
    alone, shared = (Bases(*(column[chosen] for column in bases)) for chosen in (~twice, twice))
    return Bases(*map(np.concatenate, zip(alone, _once(shared, high - low), strict=True)))


class Window(NamedTuple):
    """The positions from `low` to before `high`, and the least quality of a base that counts there."""

    low: int
    high: int
    min_base_quality: int


def supported(found: Operations, reads: Reads, window: Window, of_fragment: Integers, samples: int) -> Support:
    """What `pile` gives, added up by position, sample and allele, `[positions * samples * 4]`; samples of fragments are `of_fragment`."""
    from pipeline.kernels.compiled.pileup import add_bases, add_shared

    width, twice = window.high - window.low, _overlapping(found, reads)
    count, right, wrong = (np.zeros(width * samples * len(ALLELES), np.int64) for _ in Support._fields)
    most = int(found.length[twice[reads.fragment[found.read]]].sum())
    shared = Bases(*(np.empty(most, np.int64) for _ in Bases._fields))
    asked = (window.low, window.high, window.min_base_quality + PHRED, samples)
    rows = add_bases(found, reads, asked, (of_fragment, twice), (CODES, RIGHT_UNITS, WRONG_UNITS), (count, right, wrong, shared))
    order = np.argsort(shared.fragment[:rows] * width + shared.at[:rows])
    add_shared(order, shared, (of_fragment, samples), (RIGHT_UNITS, WRONG_UNITS), (count, right, wrong))
    return Support(count, right, wrong)


def passing(found: Operations, reads: Reads, sites: Integers) -> Passed:
    """Which reads go over positions `int64[sites]` (from 0, in order) by aligned operations."""
    begin = reads.start[found.read] + found.on_reference
    first = np.searchsorted(sites, begin)
    site, which = expanded(first, np.searchsorted(sites, begin + found.length - 1) - first)
    inside, read = sites[site] - begin[which], found.read[which]
    room = np.minimum(inside + 1, found.length[which] - 1 - inside)
    return Passed(site, reads.fragment[read], reads.mapping_quality[read], room)


def _overlapping(found: Operations, reads: Reads) -> NDArray[np.bool_]:
    """Whether reads of each fragment may overlap on the reference."""
    end, fragments = reads.start.copy(), int(reads.fragment.max(initial=-1)) + 1
    np.maximum.at(end, found.read, reads.start[found.read] + found.on_reference + found.length)
    first, last = np.full(fragments, np.iinfo(np.int64).max), np.zeros(fragments, np.int64)
    np.minimum.at(first, reads.fragment, reads.start)
    np.maximum.at(last, reads.fragment, end)
    covered = np.bincount(reads.fragment, end - reads.start, minlength=fragments)
    several = np.bincount(reads.fragment, minlength=fragments)
    found_so: NDArray[np.bool_] = (several > 2) | ((several > 1) & (covered > last - first))
    return found_so


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
