"""The header of a VCF: its samples, contigs, reference and FORMAT fields (VCF 4.x, section 1 of its specification)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError
from pipeline.files import Stamp, stamp
from pipeline.formats._bgzip.blocks import file_kind, reading
from pipeline.formats._bgzip.lines import open_text
from pipeline.genome.builds import build_in_text, build_of_contigs

FIXED = (b"#CHROM", b"POS", b"ID", b"REF", b"ALT", b"QUAL", b"FILTER", b"INFO")
"""The columns that every VCF has; FORMAT and the samples follow."""

BCF_MAGIC, BCF_HEAD = b"BCF\x02", 9
"""How a BCF begins, and the bytes before its header's text: these, the second digit of the version, and how long the text is."""

_SAMPLES = len(FIXED) + 1
_FIRST_LINE_ROOM = 4096
_INFO = re.compile(rb"^##INFO=<ID=([^,>]+),Number=([^,>]+),Type=([^,>]+)")
_CONTIG = re.compile(rb"[<,](ID|length|assembly)=\"?([^\",>]*)")


@dataclass(frozen=True)
class VcfHeader:
    """What a VCF says before its records: sample ids and ids of ##contig lines, in order; ids of FORMAT fields; the genome build; ##chrSet.

    `infos` are Number and Type of INFO fields by their ids.

    `build` is None where the contigs' lengths and the names of the assembly and the reference tell of none.
    """

    path: str
    samples: tuple[str, ...]
    contigs: tuple[str, ...]
    formats: tuple[str, ...] = ()
    build: str | None = None
    chromosome_set: tuple[str, ...] = ()
    infos: Mapping[str, tuple[str, str]] = field(default_factory=dict, hash=False)


def read_header(path: str | Path, limits: Bounds = DEFAULTS, *, is_binary: bool = False) -> VcfHeader:
    """Read a VCF's header (plain, gzip or bgzip); that of a BCF where it is binary.

    InputError where the file is missing, empty, cut, beyond its limits or no VCF, has no #CHROM line or no samples, or a sample twice.
    """
    with reading(path):
        known = stamp(path)
    return _header(str(path), limits, known, is_binary)


@lru_cache(maxsize=64)
def _header(path: str, limits: Bounds, _stamp: Stamp, is_binary: bool) -> VcfHeader:
    """A header, read once while the file is unchanged."""
    kind, meta = file_kind(path), list[bytes]()
    with reading(path), open_text(path, kind, limits) as file:
        if is_binary:
            file.read(BCF_HEAD)
        first = file.readline(_FIRST_LINE_ROOM)
        if not first.startswith(b"##fileformat=VCF"):
            raise InputError(f"{path}: not a VCF: {_what_instead(first)}")
        for line in limits.header(path, file):
            if not line.startswith(b"##"):
                break
            meta.append(line)
        else:
            line = b""
    contigs = [dict(_CONTIG.findall(text)) for text in meta if text.startswith(b"##contig=<")]
    formats = [text[len(b"##FORMAT=<ID=") :].split(b",")[0] for text in meta if text.startswith(b"##FORMAT=<ID=")]
    names = tuple(_text(contig.get(b"ID", b"")) for contig in contigs)
    chromosome_set = tuple(_text(text) for text in meta if text.startswith(b"##chrSet="))
    return VcfHeader(
        path, _sample_ids(path, line), names, tuple(map(_text, formats)), _build(contigs, meta), chromosome_set, infos_of(meta)
    )


def infos_of(meta: Sequence[bytes]) -> dict[str, tuple[str, str]]:
    """Number and Type of the INFO fields that lines of a header describe, by their ids."""
    return {_text(name): (_text(number), _text(kind)) for text in meta for name, number, kind in _INFO.findall(text)}


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _build(contigs: list[dict[bytes, bytes]], meta: list[bytes]) -> str | None:
    """The build by the contigs' lengths, else by the one assembly that they name, else by the name of the reference."""
    known = (contig for contig in contigs if b"ID" in contig and contig.get(b"length", b"").isdigit())
    lengths = {_text(contig[b"ID"]): int(contig[b"length"]) for contig in known}
    assemblies = {_text(contig[b"assembly"]) for contig in contigs if b"assembly" in contig}
    references = [_text(text.partition(b"=")[2].strip()) for text in meta if text.startswith((b"##reference=", b"##assembly="))]
    return build_of_contigs(lengths) or build_in_text(" ".join(sorted(assemblies))) or build_in_text(" ".join(references))


def _what_instead(first: bytes) -> str:
    if first.startswith(b"BCF"):
        return "this is a BCF (binary) file, which is read with format: bcf"
    if not first:
        return "there is no text in it"
    return f"its first line must begin with '##fileformat=VCF' and begins with {first[:40].decode(errors='replace').rstrip()!r}"


def _sample_ids(path: str | Path, line: bytes) -> tuple[str, ...]:
    """The sample ids of the #CHROM line, checked."""
    if not line.startswith(b"#CHROM"):
        raise InputError(
            f"{path}: there is no #CHROM line after the ## lines, so the samples are unknown; write the file again with bcftools view"
        )
    names = line.rstrip(b"\r\n").split(b"\t")
    if tuple(names[:8]) != FIXED:
        expected, found = (b" ".join(part).decode(errors="replace") for part in (FIXED, names[:8]))
        raise InputError(f"{path}: the header line must begin with the columns {expected}, separated by tabs; found {found}")
    try:
        samples = tuple(name.decode() for name in names[_SAMPLES:])
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a sample id in the #CHROM line is not UTF-8 ({error}); rename it with bcftools reheader") from error
    if not samples:
        raise InputError(f"{path}: has no sample columns (it lists variants only); give the file that holds the genotypes")
    twice = [name for name, count in Counter(samples).items() if count > 1]
    if twice:
        raise InputError(
            f"{path}: {len(twice)} sample id(s) stand more than once, such as {', '.join(twice[:3])}; rename them with bcftools reheader"
        )
    return samples
