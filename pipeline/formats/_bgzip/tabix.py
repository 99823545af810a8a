"""Indexes of bgzip files sorted by place: .tbi and .csi, as tabix and bcftools index write them (hts-specs: tabix.pdf, CSIv1.pdf).

A virtual offset is `block << 16 | byte`: where a BGZF block begins in the file, and a byte of its text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from isal import igzip

from pipeline.bounds import Bounds, bounded
from pipeline.errors import InputError
from pipeline.files import Stamp, exists, is_url, stamp
from pipeline.formats._bgzip.blocks import BLOCK_MOST, EOF_BLOCK, reading
from pipeline.pieces import open_pieces, with_more

_LEAF_SHIFT, _DEPTH = 14, 5  # of a .tbi; a .csi says its own
INDEX_LIMITS = Bounds(line_mib=4096, inflated_gib=4)  # an index is no text, and has no lines
_MAGIC = {b"TBI\x01": "tbi", b"CSI\x01": "csi"}


class Chunk(NamedTuple):
    """Records that lie one after the other: the virtual offsets of the first's begin and the last's end."""

    begin: int
    end: int


@dataclass(frozen=True)
class Contig:
    """What an index has of one contig: chunks by bin, and offsets before which no record of a place lies (by window, or by bin)."""

    bins: dict[int, list[Chunk]]
    least_of_window: tuple[int, ...]
    least_of_bin: dict[int, int]


@dataclass(frozen=True)
class Index:
    """An index: its contigs by name, and the widths of its bins, 2^(leaf_shift + 3 i) bases on `depth` + 1 levels."""

    path: str
    contigs: dict[str, Contig]
    leaf_shift: int
    depth: int

    def chunks(self, contig: str, low: int, high: int) -> list[Chunk]:
        """Where the records lie whose POS is from `low` to `high` (1-based), in order; chunks that share a block are one."""
        found, begin = self.contigs.get(contig), max(low - 1, 0)
        end = min(high, 1 << (self.leaf_shift + 3 * self.depth))
        if found is None or begin >= end:
            return []
        least = self._least(found, begin)
        chunks = [chunk for number in self._bins(begin, end) for chunk in found.bins.get(number, []) if chunk.end > least]
        merged = list[Chunk]()
        for chunk in sorted(Chunk(max(begin, least), end) for begin, end in chunks):
            if merged and chunk.begin >> 16 <= merged[-1].end >> 16:
                merged[-1] = Chunk(merged[-1].begin, max(merged[-1].end, chunk.end))
            else:
                merged.append(chunk)
        return merged

    def _bins(self, begin: int, end: int) -> Iterator[int]:
        """Numbers of the bins that overlap [begin, end), 0-based."""
        first = 0
        for level in range(self.depth + 1):
            shift = self.leaf_shift + 3 * (self.depth - level)
            yield from range(first + (begin >> shift), first + (end - 1 >> shift) + 1)
            first += 1 << 3 * level

    def _least(self, contig: Contig, begin: int) -> int:
        """An offset before which no record lies that reaches `begin` or past it."""
        window = begin >> self.leaf_shift
        if contig.least_of_window:
            return contig.least_of_window[min(window, len(contig.least_of_window) - 1)]
        number = ((1 << 3 * self.depth) - 1) // 7 + window
        while number and number not in contig.least_of_bin:
            number = number - 1 >> 3
        return contig.least_of_bin.get(number, 0)


def index_beside(path: str) -> str | None:
    """The index that stands beside a bgzip file and is read: PATH.csi, else PATH.tbi; None where there is none."""
    return next((index for ending in ("csi", "tbi") if exists(index := with_more(path, f".{ending}"))), None)


def read_index(path: str) -> Index:
    """The index that stands beside a bgzip file, PATH.csi or PATH.tbi.

    InputError where there is none, it is older than the file or damaged, or points past the file's end. At a URL, where times are those
    of uploads, it must reach that end instead.
    """
    beside = index_beside(path)
    if beside is None:
        raise InputError(
            f"{path}: regions need an index beside it; make one with: tabix -p vcf {path} (or leave `regions` out, and filter)"
        )
    file, index = stamp(path), stamp(beside)
    if index.changed < file.changed:
        raise InputError(
            f"{beside}: is older than {path}, so it may be of a former file; make it again with: tabix -f -p vcf {path} "
            "(or touch it, where you know that it fits)"
        )
    found = _read(beside, path, index)
    last = max((chunk.end >> 16 for contig in found.contigs.values() for chunks in contig.bins.values() for chunk in chunks), default=0)
    what = "ends before what it points to" if last > file.size else ""
    if is_url(path) and last < file.size - len(EOF_BLOCK) - BLOCK_MOST:
        what = "goes on where it ends"
    if what:
        raise InputError(f"{beside}: is not of {path}, which {what}; make it again with: tabix -f -p vcf {path}")
    return found


@lru_cache(maxsize=64)
def _read(index: str, path: str, _stamp: Stamp) -> Index:
    """An index, read once while it is unchanged."""
    with reading(index), open_pieces(index) as file, igzip.open(file, "rb") as packed:
        data = bounded(index, packed, INDEX_LIMITS, _stamp.size).read()
    try:
        return _index(index, data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise InputError(f"{index}: the index is damaged ({error}); make it again with: tabix -f -p vcf {path}") from error


class _Reader:
    """Little-endian numbers, one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, form: str) -> tuple[int, ...]:
        """The next numbers of a struct format. Raises struct.error where the data end before."""
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values


def _index(path: str, data: bytes) -> Index:
    kind = _MAGIC.get(data[:4])
    if kind is None:
        raise InputError(f"{path}: is no index of tabix or bcftools (it begins with {data[:4]!r}); make it again with: tabix -f -p vcf")
    reader, leaf_shift, depth = _Reader(data, 4), _LEAF_SHIFT, _DEPTH
    if kind == "tbi":
        (n_contigs,) = reader.take("i")
    else:
        leaf_shift, depth, _ = reader.take("iii")
    *_, length = reader.take("7i")
    names = data[reader.at : reader.at + length].split(b"\0")[:-1]
    reader.at += length
    if kind == "csi":
        (n_contigs,) = reader.take("i")
    contigs = {names[i].decode(): _contig(reader, kind, ((1 << 3 * (depth + 1)) - 1) // 7) for i in range(n_contigs)}
    return Index(path, contigs, leaf_shift, depth)


def _contig(reader: _Reader, kind: str, n_bins: int) -> Contig:
    """One contig; bins past `n_bins` hold no records but counts of them."""
    bins, least_of_bin = dict[int, list[Chunk]](), dict[int, int]()
    for _ in range(*reader.take("i")):
        number, *least, n_chunks = reader.take("Ii" if kind == "tbi" else "IQi")
        offsets = reader.take(f"{2 * n_chunks}Q")
        if number < n_bins:
            bins[number] = [Chunk(*pair) for pair in zip(offsets[::2], offsets[1::2], strict=True)]
            least_of_bin[number] = least[0] if least else 0
    windows = reader.take(f"{reader.take('i')[0]}Q") if kind == "tbi" else ()
    return Contig(bins, windows, least_of_bin if kind == "csi" else {})
