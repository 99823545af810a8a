"""Reads and pairs mapped by mappy, each to its rows as SAM has them. Not a stage.

minimap2: Li (2018), Bioinformatics 34:3094. SAM: https://samtools.github.io/hts-specs/SAMv1.pdf. The library maps one read or one
pair a call of some microseconds: threads that take turns after each are slower than one by itself, so one of a process maps at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple

from pipeline.errors import InputError, PlaceError
from pipeline.files import Stamp

PAIRED, PROPER, UNMAPPED, MATE_UNMAPPED, REVERSE, MATE_REVERSE = 1, 2, 4, 8, 16, 32
FIRST, SECOND, SECONDARY, FAILED, DUPLICATE, SUPPLEMENTARY = 64, 128, 256, 512, 1024, 2048
FRAGMENT_MOST, GAP_MOST = 800, 100  # of preset sr: the longest fragment, and the least that may lie between mates whatever their lengths
_COMPLEMENT = str.maketrans("ACGTUNacgtunRYKMBVDHrykmbvdh", "TGCAANtgcaanYRMKVBHDyrmkvbhd")
_LOCK = Lock()
MAPPING = Lock()
"""Held by the thread of a process that maps."""


class Row(NamedTuple):
    """An alignment, or a read that has none."""

    read_id: str
    flag: int
    chromosome: str | None
    base_pair_location: int | None
    mapping_quality: int
    cigar: str | None
    strand: str | None
    edit_distance: int | None
    mate_chromosome: str | None
    mate_location: int | None
    template_length: int
    bases: str
    base_qualities: str


class Hit(NamedTuple):
    """Where a read lies: `start` and `end` on the reference from 0, `clips` the bases left out before and behind in its direction."""

    chromosome: str
    start: int
    end: int
    reverse: bool
    quality: int
    cigar: str
    clips: tuple[int, int]
    edits: int
    matches: int


@dataclass(frozen=True)
class Read:
    """A read as the sequencer gave it."""

    name: str
    bases: str
    qualities: str


def need_mappy() -> None:
    """Raise PlaceError where mappy is not installed."""
    if find_spec("mappy") is None:
        raise PlaceError("mappy, which aligns reads, is not installed. Install it with: pip install '.[align]'")


def aligner(path: str, preset: str, known: Stamp) -> Any:
    """The index of a reference for a preset, made once a process. InputError for what is no FASTA."""
    with _LOCK:
        return _aligner(path, preset, known)


@lru_cache(maxsize=2)
def _aligner(path: str, preset: str, _known: Stamp) -> Any:
    import mappy

    found = mappy.Aligner(path, preset=preset, n_threads=1)
    if not found or not found.seq_names:
        raise InputError(f"{path}: minimap2 cannot index it. Is it a FASTA file?")
    return found


def single_rows(index: Any, reads: Iterator[Read]) -> Iterator[Row]:
    """The rows of reads of one end."""
    import mappy

    buffer = mappy.ThreadBuffer()
    for read in reads:
        hits = [_hit(found, len(read.bases)) for found in index.map(read.bases, name=read.name, buf=buffer) if found.is_primary]
        yield from _rows(read, read.name, 0, hits, None)


def paired_rows(index: Any, pairs: Iterator[tuple[Read, Read]]) -> Iterator[Row]:
    """The rows of pairs: those of the first read, then those of its mate."""
    import mappy

    buffer = mappy.ThreadBuffer()
    for first, second in pairs:
        ends: tuple[list[Hit], list[Hit]] = ([], [])
        for found in index.map(first.bases, second.bases, name=first.name, buf=buffer):
            if found.is_primary:
                which = found.read_num - 1
                ends[which].append(_hit(found, len((first, second)[which].bases), turned=which == 1))
        proper = _proper(ends, max(FRAGMENT_MOST - len(first.bases) - len(second.bases), GAP_MOST))
        mains = (None, None) if proper is None else (ends[0][proper[0]], ends[1][proper[1]])
        name = first.name.removesuffix("/1")
        for which, read in enumerate((first, second)):
            main, mate = (mains[which], mains[1 - which]) if proper else (_first(ends[which]), _first(ends[1 - which]))
            flag = PAIRED | (FIRST, SECOND)[which] | (MATE_UNMAPPED if mate is None else MATE_REVERSE * mate.reverse)
            yield from _rows(read, name, flag, ends[which], _Mate(main, mate, proper is not None))


class _Mate(NamedTuple):
    """Of a read of a pair its first alignment, that of the other one, and whether both lie as a pair should."""

    main: Hit | None
    hit: Hit | None
    proper: bool


def _first(hits: Sequence[Hit]) -> Hit | None:
    return hits[0] if hits else None


def _hit(found: Any, length: int, *, turned: bool = False) -> Hit:
    """What mappy found; of a second read it counts the clipped bases from the other end (`turned`)."""
    reverse = found.strand < 0
    before, behind = found.q_st, length - found.q_en
    clips = (before, behind) if reverse == turned else (behind, before)
    return Hit(found.ctg, found.r_st, found.r_en, reverse, found.mapq, found.cigar_str, clips, found.NM, found.mlen)


def _proper(ends: tuple[list[Hit], list[Hit]], most: int) -> tuple[int, int] | None:
    """Which alignments of both ends face each other, the forward one first and no more than `most` before the other: the best such."""
    best, found = -1, None
    for i, first in enumerate(ends[0]):
        for j, second in enumerate(ends[1]):
            forward, back = (second, first) if first.reverse else (first, second)
            facing = first.reverse != second.reverse and first.chromosome == second.chromosome
            if facing and forward.start <= back.start <= forward.end + most and first.matches + second.matches > best:
                best, found = first.matches + second.matches, (i, j)
    return found


def _rows(read: Read, name: str, flag: int, hits: Sequence[Hit], mate: _Mate | None) -> Iterator[Row]:
    other = mate.hit if mate else None
    if not hits:
        there, at = (other.chromosome, other.start + 1) if other else (None, None)
        yield Row(name, flag | UNMAPPED, there, at, 0, None, None, None, there, at, 0, read.bases, read.qualities)
        return
    main = (mate.main if mate else None) or hits[0]
    turned: tuple[str, str] | None = None
    for hit in hits:
        bases, qualities = read.bases, read.qualities
        if hit.reverse:
            turned = turned or (bases.translate(_COMPLEMENT)[::-1], qualities[::-1])
            bases, qualities = turned
        bits = flag | REVERSE * hit.reverse | (PROPER if mate and mate.proper and hit is main else 0)
        letter, (before, behind) = "S", hit.clips
        if hit is not main:
            bits, letter = bits | SUPPLEMENTARY, "H"
            bases, qualities = (text[before : len(text) - behind] for text in (bases, qualities))
        cigar = f"{f'{before}{letter}' if before else ''}{hit.cigar}{f'{behind}{letter}' if behind else ''}"
        next_to = other or hit
        there, at = (next_to.chromosome, next_to.start + 1) if mate else (None, None)
        yield Row(
            name, bits, hit.chromosome, hit.start + 1, hit.quality, cigar, "-" if hit.reverse else "+", hit.edits, there, at,
            _template(hit, other), bases, qualities,
        )  # fmt: skip


def _template(hit: Hit, mate: Hit | None) -> int:
    """From 5' end to 5' end of a pair, both included; 0 for other chromosomes."""
    if mate is None or mate.chromosome != hit.chromosome:
        return 0
    here, there = (one.end - 1 if one.reverse else one.start for one in (hit, mate))
    return there - here + (there > here) - (there < here)
