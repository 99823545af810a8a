"""VCF as text: the header, and whole lines of records to variant columns and packed calls (VCF 4.x, section 1 of its specification)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats.bgzf import file_kind, open_text, reading
from pipeline.formats.vcf_calls import TAIL, Records, pack_records

FIXED = (b"#CHROM", b"POS", b"ID", b"REF", b"ALT", b"QUAL", b"FILTER", b"INFO")
"""The columns that every VCF has; FORMAT and the samples follow."""

VARIANT_COLUMNS = {
    "chromosome": pl.String(),
    "base_pair_location": pl.Int64(),
    "variant_id": pl.String(),
    "ref": pl.String(),
    "alt": pl.String(),
}
"""The columns of a variant's row, in order."""

_FIRST_LINE_ROOM = 4096
# Among alleles separated by commas: <DEL>, *, and breakends, which have a bracket, or a dot at one end.
_SYMBOLIC = r"(^|,)(<|\*(,|$)|\.[^,])|[\[\]]|[^,]\.(,|$)"


@dataclass(frozen=True)
class VcfHeader:
    """What a VCF says before its records: its sample ids in order, and the ids of its ##contig lines."""

    path: str
    samples: tuple[str, ...]
    contigs: tuple[str, ...]


@dataclass(frozen=True)
class VcfCounts:
    """What was met while records were read: records, records of four kinds (a record can be of several), and calls of two kinds."""

    records: int = 0
    multi_allelic: int = 0
    monomorphic: int = 0
    symbolic: int = 0
    without_gt: int = 0
    half_missing_calls: int = 0
    haploid_calls: int = 0

    def __add__(self, other: VcfCounts) -> VcfCounts:
        return VcfCounts(**{name: count + getattr(other, name) for name, count in asdict(self).items()})


@dataclass(frozen=True)
class VcfRecords:
    """Variants (columns as VARIANT_COLUMNS), their packed calls `uint8[variants, ceil(samples / 4)]`, and what was met."""

    variants: pl.DataFrame
    calls: NDArray[np.uint8]
    counts: VcfCounts


def read_header(path: str | Path) -> VcfHeader:
    """Read a VCF's header (plain, gzip or bgzip).

    InputError where the file is missing, empty, cut or no VCF, has no #CHROM line or no samples, or names a sample twice.
    """
    kind = file_kind(path)
    contigs = []
    with reading(path), open_text(path, kind) as file:
        first = file.readline(_FIRST_LINE_ROOM)
        if not first.startswith(b"##fileformat=VCF"):
            raise InputError(f"{path}: not a VCF: {_what_instead(first)}")
        for line in file:
            if line.startswith(b"##contig=<"):
                contigs.append(_contig_id(line))
            if not line.startswith(b"##"):
                break
        else:
            line = b""
    return VcfHeader(str(path), _sample_ids(path, line), tuple(contigs))


def _what_instead(first: bytes) -> str:
    if first.startswith(b"BCF"):
        return "this is a BCF (binary) file; turn it into one with bcftools view -Oz"
    if not first:
        return "there is no text in it"
    return f"its first line must begin with '##fileformat=VCF' and begins with {first[:40].decode(errors='replace').rstrip()!r}"


def _contig_id(line: bytes) -> str:
    inner = line.rstrip().removeprefix(b"##contig=<").removesuffix(b">")
    ids = [part.removeprefix(b"ID=") for part in inner.split(b",") if part.startswith(b"ID=")]
    return ids[0].decode(errors="replace") if ids else ""


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
        samples = tuple(name.decode() for name in names[TAIL:])
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


def parse_records(lines: bytes, header: VcfHeader) -> VcfRecords:
    """Whole lines of records to one row for each ALT allele, with its packed calls.

    In the row of an allele the dosage is the number of alleles equal to it; other ALT alleles count as REF (as in bcftools norm -m -).
    A record without ALT ('.') gives no row; symbolic ALT, '*' and breakends give rows as any other. Blank lines are passed over.
    InputError, with the record, for too few or too many fields, a position that is no number, an empty field, and an impossible genotype.
    """
    if b"\r" in lines:
        lines = lines.replace(b"\r\n", b"\n").rstrip(b"\r")
    if not lines.isascii():  # Polars' text is UTF-8; an odd byte in INFO is no reason to refuse a file
        lines = lines.decode(errors="replace").encode()
    fields = [line.split(b"\t", TAIL) for line in lines.split(b"\n") if line]
    sites, n_alts = _sites(fields, header)
    packed = pack_records(Records(header.path, header.samples, fields, n_alts))
    variants = _rows(sites, n_alts)
    counts = VcfCounts(
        records=len(fields),
        multi_allelic=int((n_alts > 1).sum()),
        monomorphic=int((n_alts == 0).sum()),
        symbolic=int(sites["alt"].str.contains(_SYMBOLIC).sum()),
        without_gt=packed.without_gt,
        half_missing_calls=packed.half_missing,
        haploid_calls=packed.haploid,
    )
    return VcfRecords(variants, packed.calls, counts)


def _sites(fields: Sequence[list[bytes]], header: VcfHeader) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """The first five fields of each record, checked, with `position` still text, and the number of its ALT alleles."""
    records = Records(header.path, header.samples, fields, np.zeros(0, np.int64))
    short = next((index for index, record in enumerate(fields) if len(record) <= TAIL), None)
    if short is not None:
        raise records.refuse_field_count(short)
    columns = {name: [record[i] for record in fields] for i, name in enumerate(VARIANT_COLUMNS)}
    text = pl.DataFrame(columns, schema=dict.fromkeys(VARIANT_COLUMNS, pl.Binary())).cast(pl.String())
    positions = text["base_pair_location"].cast(pl.Int64(), strict=False)
    bad = (positions < 0).fill_null(True).arg_true()
    if len(bad):
        found = text["base_pair_location"][bad[0]]
        raise InputError(
            f"{records.where(bad[0])}: POS must be a number from 0, found {found!r}; correct the line or take it out of the file"
        )
    sites = text.with_columns(positions)
    _check_text(sites, records)
    alts = sites["alt"]
    n_alts = (alts.str.count_matches(",", literal=True) + 1).set(alts == ".", 0).cast(pl.Int64()).to_numpy()
    return sites, n_alts


def _check_text(sites: pl.DataFrame, records: Records) -> None:
    """InputError for an empty CHROM, ID, REF or ALT, or an empty one among several ALT alleles."""
    for name, pattern in (("chromosome", "^$"), ("variant_id", "^$"), ("ref", "^$"), ("alt", "^$|^,|,,|,$")):
        wrong = sites[name].str.contains(pattern).arg_true()
        if len(wrong):
            found = sites[name][wrong[0]]
            raise InputError(
                f"{records.where(wrong[0])}: {name} is {found!r}, but no part of it may be empty; write '.' where there is none"
            )


def _rows(sites: pl.DataFrame, n_alts: NDArray[np.int64]) -> pl.DataFrame:
    """One row for each ALT allele; an id is built where there is none, and completed by the allele where it would stand for several."""
    alt, name = pl.col("alt"), pl.col("variant_id")
    built = pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt")
    several = pl.format("{}:{}", "variant_id", "alt")
    rows = sites.with_columns(several=pl.Series(n_alts > 1)).filter(pl.Series(n_alts > 0))
    if bool((n_alts > 1).any()):
        rows = rows.with_columns(alt.str.split(",")).explode("alt", empty_as_null=False)
    rows = rows.with_columns(pl.when(name == ".").then(built).when("several").then(several).otherwise(name).alias("variant_id"))
    return rows.select(*VARIANT_COLUMNS)
