"""Regions of indexed VCFs: what the job says (`20:1000000-2000000`, `chrX`), and which bytes of a file to read for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import InputError, near
from pipeline.formats._bgzip.blocks import TextRange, file_kind, reading
from pipeline.formats._bgzip.cutting import cut_blocks
from pipeline.formats._bgzip.tabix import Index
from pipeline.formats._vcf.header import VcfHeader

LAST = (1 << 31) - 1
"""The last position that a VCF can have."""

_PLACE = re.compile(r"(?P<contig>.+):(?P<low>[0-9][0-9,]*)(?P<open>-(?P<high>[0-9][0-9,]*)?)?")


@dataclass(frozen=True, order=True)
class Region:
    """Records of one contig with POS from `low` to `high`, both 1-based and both included."""

    contig: str
    low: int = 0
    high: int = LAST


def region_of(text: str) -> Region:
    """The region that a text names: CONTIG, CONTIG:POS, CONTIG:LOW-HIGH or CONTIG:LOW-. Raises ValueError for any other."""
    found = _PLACE.fullmatch(text)
    if found is None:
        if not text or text != text.strip() or re.search(r":[0-9,-]*$|\s", text):
            raise ValueError(f"{text!r} is no region; write CONTIG, CONTIG:POS, CONTIG:LOW-HIGH or CONTIG:LOW-, such as 20:1000000-2000000")
        return Region(text)
    low = _number(found["low"])
    high = _number(found["high"]) if found["high"] else LAST if found["open"] else low
    if high < low:
        raise ValueError(f"{text!r} ends before it begins; write the lower position first")
    return Region(found["contig"], low, high)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def regions_of(texts: Sequence[str], contigs: Sequence[str]) -> list[Region]:
    """The regions, in the order of the contigs and of their positions, those that meet or overlap made one.

    A text that is a contig's name is that contig, whatever colons it has. InputError for a contig that is not among them.
    """
    merged = list[Region]()
    known = {name: place for place, name in enumerate(contigs)}
    wanted = [Region(text) if text in known else region_of(text) for text in texts]
    for region in wanted:
        if region.contig not in known:
            hint = _other_name(region.contig, known) or f".{near(region.contig, known)}"
            raise InputError(f"regions: there is no contig {region.contig!r}{hint}")
    for region in sorted(wanted, key=lambda region: (known[region.contig], region.low, region.high)):
        last = merged[-1] if merged else None
        if last and last.contig == region.contig and region.low <= last.high + 1:
            merged[-1] = Region(last.contig, last.low, max(last.high, region.high))
        else:
            merged.append(region)
    return merged


def _other_name(contig: str, known: dict[str, int]) -> str:
    """What to say where a contig is known with `chr`, or without it."""
    other = contig.removeprefix("chr") if contig.startswith("chr") else f"chr{contig}"
    return f"; this file writes it {other!r}" if other in known else ""


def contigs_of(header: VcfHeader, index: Index) -> list[str]:
    """The contigs that have records, in the file's order, and those that only the header names."""
    return list(dict.fromkeys((*index.contigs, *header.contigs)))


def check_indexable(path: str) -> None:
    """InputError for a file that no index can be of: one that is not bgzip."""
    if (kind := file_kind(path)) != "bgzf":
        written = "gzip and not bgzip" if kind == "gzip" else "plain text"
        text = "cat" if kind == "plain" else "gunzip -c"
        remedy = f"{text} {path} | bgzip > NEW.vcf.gz && tabix -p vcf NEW.vcf.gz"
        raise InputError(f"{path}: regions can only be read from a bgzip file with an index, and this is {written}; write it so: {remedy}")


def plan_region(path: str, index: Index, region: Region, target_bytes: int) -> list[TextRange]:
    """Ranges of about `target_bytes` of text that hold a region's records, and a few around them.

    InputError where the index points to what is no block of the file.
    """
    ranges = list[TextRange]()
    for begin, end in index.chunks(region.contig, region.low, region.high):
        try:
            with reading(path):
                ranges += cut_blocks(path, target_bytes, begin >> 16, (end >> 16) + bool(end & 0xFFFF), begin & 0xFFFF)
        except InputError as error:
            raise InputError(f"{index.path}: does not fit the file ({error}); make it again with: tabix -f -p vcf {path}") from error
    return ranges
