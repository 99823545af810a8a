"""The header of a BCF: a VCF's, the numbers that its records have for names, and where the first of them lies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from isal import igzip

from pipeline.bounds import DEFAULTS, Bounds, bounded
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.formats._bgzip.blocks import blocks, file_kind, reading
from pipeline.formats._vcf.header import BCF_HEAD, BCF_MAGIC, VcfHeader, read_header
from pipeline.pieces import open_pieces

_NAMED = re.compile(rb"^##(contig|FILTER|INFO|FORMAT)=<(?:.*,)?ID=([^,>]+)")
_NUMBER = re.compile(rb"[<,]IDX=(\d+)")


@dataclass(frozen=True)
class BcfHeader:
    """The VCF header; names of contigs, and of filters and fields, by their numbers; the block and its byte where records begin."""

    vcf: VcfHeader
    contigs: tuple[str, ...]
    names: tuple[str, ...]
    block: int
    skip: int

    def number(self, name: str) -> int:
        """The number of a field, -1 where there is none."""
        return self.names.index(name) if name in self.names else -1


def read_bcf_header(path: str, limits: Bounds = DEFAULTS) -> BcfHeader:
    """Read a BCF's header. InputError for what is no BCF of bgzip blocks, and for what a VCF's header is refused for."""
    with reading(path):
        known = stamp(path)
    return _header(path, limits, known)


@lru_cache(maxsize=64)
def _header(path: str, limits: Bounds, _stamp: Stamp) -> BcfHeader:
    kind = file_kind(path)
    if kind != "bgzf":
        remedy = f"write it again: bcftools view -Ob -o NEW.bcf {path}"
        raise InputError(f"{path}: a BCF is read from bgzip blocks, and this is {'gzip' if kind == 'gzip' else 'not packed'}; {remedy}")
    with reading(path), open_pieces(path) as file, igzip.open(file, "rb") as unpacked:
        text = bounded(path, unpacked, limits)
        head = text.read(BCF_HEAD)
        if not head.startswith(BCF_MAGIC) or len(head) < BCF_HEAD:
            raise InputError(f"{path}: not a BCF of version 2: it begins with {head[:5]!r}; a VCF is read with format: vcf")
        length = int.from_bytes(head[5:], "little")
        limits.need_line(path, length, "a header")
        lines = text.read(length).rstrip(b"\0").split(b"\n")
    contigs, names = dict[int, str](), {0: "PASS"}
    for line in lines:
        if found := _NAMED.match(line):
            known, name, stated = contigs if found[1] == b"contig" else names, found[2].decode(errors="replace"), _NUMBER.search(line)
            if name not in known.values():
                known[int(stated[1]) if stated else len(known)] = name
    block, skip = _place(path, BCF_HEAD + length)
    return BcfHeader(read_header(path, limits, is_binary=True), _by_number(contigs), _by_number(names), block, skip)


def _by_number(names: dict[int, str]) -> tuple[str, ...]:
    return tuple(names.get(number, "") for number in range(max(names, default=-1) + 1))


def _place(path: str, byte: int) -> tuple[int, int]:
    """The block, and the byte of its text, that hold a byte of the whole text."""
    at = 0
    for at, size in blocks(path):
        if byte < size:
            return at, byte
        byte -= size
    return at, 0
