"""VCF as text: whole lines of records to variant columns, and to packed calls or dosages (VCF 4.x, section 1 of its specification)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.formats._genotypes import ARRAYS
from pipeline.formats._vcf.calls import pack_records
from pipeline.formats._vcf.dosages import read_plain_dosages, read_plain_sums
from pipeline.formats._vcf.header import VcfHeader
from pipeline.formats._vcf.records import TAIL, Records
from pipeline.formats._vcf.region import Region
from pipeline.formats._vcf.site_fields import PLACES, SiteField, by_allele, check_lengths
from pipeline.genome.columns import VARIANT, dtypes_of
from pipeline.kernels.genotypes import packed_width

Field = Literal["calls", "dosages", "probabilities", "haplotype_dosages"]
"""What is read: GT as calls, or DS, GP or HDS as ALT dosages."""
KEYS: Mapping[Field, str] = {"calls": "GT", "dosages": "DS", "probabilities": "GP", "haplotype_dosages": "HDS"}
"""The FORMAT field of each."""
ARRAYS_OF: Mapping[Field, str] = {field: ARRAYS["calls" if field == "calls" else "dosages"] for field in get_args(Field)}
"""The array that a part has of it."""

VARIANT_COLUMNS = dtypes_of(VARIANT)
"""The columns of a variant's row, in order."""

_TEXT_FIELDS = {"chromosome": 0, "variant_id": 2, "ref": 3, "alt": 4}
# Among alleles separated by commas: <DEL>, *, and breakends, which have a bracket, or a dot at one end.
_SYMBOLIC = r"(^|,)(<|\*(,|$)|\.[^,])|[\[\]]|[^,]\.(,|$)"


@dataclass(frozen=True)
class VcfCounts:
    """What was met while records were read: records, records of five kinds (a record can be of several), and calls of two kinds."""

    records: int = 0
    multi_allelic: int = 0
    monomorphic: int = 0
    symbolic: int = 0
    without_gt: int = 0
    without_ds: int = 0
    half_missing_calls: int = 0
    haploid_calls: int = 0

    def __add__(self, other: VcfCounts) -> VcfCounts:
        return VcfCounts(**{name: count + getattr(other, name) for name, count in asdict(self).items()})


@dataclass(frozen=True)
class VcfRecords:
    """Variants (columns as VARIANT_COLUMNS), an array with a row for each, and what was met.

    The array is packed calls `uint8[variants, ceil(samples / 4)]`, or ALT dosages `float32[variants, samples]`, NaN where missing.
    """

    variants: pl.DataFrame
    array: NDArray[Any]
    counts: VcfCounts


def parse_records(
    lines: bytes, header: VcfHeader, field: Field = "calls", region: Region | None = None, sites_of: Sequence[SiteField] = ()
) -> VcfRecords:
    """Whole lines of records to one row for each ALT allele; lines that are blank or begin with # are passed over.

    Of records outside the `region`, where one is given, only the first five fields are looked at.

    In the row of an allele the call is the number of alleles equal to it; other ALT alleles count as REF (as in bcftools norm -m -).
    A record without ALT ('.') gives no row; symbolic ALT, '*' and breakends give rows as any other. A record without the field is missing
    throughout. InputError, with the record, for too few or too many fields, a position that is no number, an empty field, an impossible
    genotype, and a dosage that is none.
    """
    from pipeline.kernels.compiled import vcf

    text = np.frombuffer(lines, np.uint8)
    bounds = np.empty((lines.count(b"\n") + 1, vcf.END + 1), np.int64)
    n_records, met, short = vcf.find_records(text, bounds)
    if met & vcf.NON_ASCII and not _is_utf8(lines):  # Polars' text is UTF-8; an odd byte is no reason to refuse a file
        return parse_records(lines.decode(errors="replace").encode(), header, field, region, sites_of)
    bounds = bounds[:n_records]
    positions, n_alts = np.empty((2, n_records), np.int64)
    found = _Found(lines, header, text, bounds, n_alts)
    wrong, met = (n_records - 1, 0) if short else vcf.read_sites(text, bounds, positions, n_alts)
    if wrong >= 0:
        found.plain(slice(0, wrong + 1)).check()
    sites = pl.DataFrame(
        {name: positions if name == "base_pair_location" else _column(text, bounds, _TEXT_FIELDS[name]) for name in VARIANT_COLUMNS},
        schema=VARIANT_COLUMNS,
    )
    if sites_of:
        sites = sites.with_columns(one.texts(lambda place: _column(text, bounds, PLACES[place])) for one in sites_of)
    if region is not None:
        inside = (sites["chromosome"] == region.contig) & sites["base_pair_location"].is_between(region.low, region.high)
        sites, found = sites.filter(inside), found.chosen(inside.to_numpy())
        n_alts = found.n_alts
    variants = rows_of(sites, n_alts, (sites_of, header.path), unnamed=bool(met & vcf.UNNAMED))
    variants = variants.with_columns(one.typed(variants, header.path) for one in sites_of)
    counts = counted(sites, n_alts, symbolic=bool(met & vcf.SYMBOLIC))
    array, met_in_field = found.calls() if field == "calls" else found.dosages(KEYS[field])
    return VcfRecords(variants, array, counts + met_in_field)


def counted(sites: pl.DataFrame, n_alts: NDArray[np.int64], *, symbolic: bool) -> VcfCounts:
    """What there is of records; `symbolic`: some may have such alleles."""
    return VcfCounts(
        records=len(n_alts),
        multi_allelic=int((n_alts > 1).sum()),
        monomorphic=int((n_alts == 0).sum()),
        symbolic=int(sites["alt"].str.contains(_SYMBOLIC).sum()) if symbolic else 0,
    )


def _is_utf8(lines: bytes) -> bool:
    try:
        lines.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True)
class _Found:
    """Records whose fields have been found: `bounds: int64[records, 11]` of kernels/compiled/vcf.py, `n_alts: int64[records]`."""

    lines: bytes
    header: VcfHeader
    text: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    n_alts: NDArray[np.int64]

    def chosen(self, inside: NDArray[np.bool_]) -> _Found:
        """Some of the records."""
        return replace(self, bounds=self.bounds[inside], n_alts=self.n_alts[inside])

    def plain(self, chosen: slice | NDArray[np.bool_]) -> Records:
        """Some of the records, for plain code."""
        lines = [self.lines[bounds[0] : bounds[-1]] for bounds in self.bounds[chosen].tolist()]
        return Records(self.header.path, self.header.samples, [line.split(b"\t", TAIL) for line in lines], self.n_alts[chosen])

    def calls(self) -> tuple[NDArray[np.uint8], VcfCounts]:
        """Packed calls: those that the kernel did not read by plain code."""
        from pipeline.kernels.compiled.vcf_calls import read_calls

        n_samples = len(self.header.samples)
        packed = np.zeros((int(self.n_alts.sum()), packed_width(n_samples)), np.uint8)
        odd = np.zeros(len(self.n_alts), np.bool_)
        half, haploid = read_calls(self.text, self.bounds, self.n_alts, n_samples, packed, odd)
        return packed, VcfCounts(half_missing_calls=half, haploid_calls=haploid) + odd_calls(
            packed, np.repeat(odd, self.n_alts), self.plain(odd)
        )

    def dosages(self, key: str) -> tuple[NDArray[np.float32], VcfCounts]:
        """ALT dosages, of DS, GP or HDS: those that the kernel did not read by plain code."""
        from pipeline.kernels.compiled.vcf_dosages import GP, HDS, read_dosages, read_sums

        dosages = np.empty((int(self.n_alts.sum()), len(self.header.samples)), np.float32)
        odd = np.zeros(len(self.n_alts), np.bool_)
        if key == "DS":
            without = read_dosages(self.text, self.bounds, self.n_alts, dosages, odd)
        else:
            name = np.frombuffer(key.encode(), np.uint8), GP if key == "GP" else HDS
            without = read_sums(self.text, self.bounds, self.n_alts, name, dosages, odd)
        odd_dosages(dosages, np.repeat(odd, self.n_alts), self.plain(odd), key)
        return dosages, VcfCounts(without_ds=without)


def odd_calls(packed: NDArray[np.uint8], rows: NDArray[np.bool_], records: Records) -> VcfCounts:
    """Write the calls of records that a kernel did not read, by plain code, into their rows; what was met in them."""
    if not records.fields:
        return VcfCounts()
    rest = pack_records(records)
    packed[rows] = rest.calls
    return VcfCounts(without_gt=rest.without_gt, half_missing_calls=rest.half_missing, haploid_calls=rest.haploid)


def odd_dosages(dosages: NDArray[np.float32], rows: NDArray[np.bool_], records: Records, key: str) -> None:
    """The same of dosages, of DS, GP or HDS."""
    if records.fields:
        dosages[rows] = read_plain_dosages(records) if key == "DS" else read_plain_sums(records, key)


def _column(text: NDArray[np.uint8], bounds: NDArray[np.int64], field: int) -> pl.Series:
    """A fixed field of every record, as a column: the bytes side by side, and where each begins."""
    import pyarrow as pa

    from pipeline.kernels.compiled import vcf

    starts = np.ascontiguousarray(bounds[:, field])
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(bounds[:, field + 1] - 1 - starts, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    vcf.copy_field(text, starts, offsets, data)
    column = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(data))
    return cast("pl.Series", pl.from_arrow(column))


def rows_of(sites: pl.DataFrame, n_alts: NDArray[np.int64], more: tuple[Sequence[SiteField], str], *, unnamed: bool) -> pl.DataFrame:
    """One row for each ALT allele; an id is built where there is none, and completed by the allele where it would stand for several.

    `more` are the columns beside a variant's own, and the file's path.
    """
    several = bool((n_alts > 1).any())
    if not (several or unnamed or (n_alts == 0).any()):
        return sites
    alt, name = pl.col("alt"), pl.col("variant_id")
    built = pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt")
    rows = sites.with_columns(__several__=pl.Series(n_alts > 1)).filter(pl.Series(n_alts > 0))
    if several:
        lists = by_allele(more[0])
        rows = rows.with_columns(alt.str.split(","), **lists)
        check_lengths(rows, *more)
        rows = rows.explode("alt", *lists, empty_as_null=False)
    completed = pl.when("__several__").then(pl.format("{}:{}", "variant_id", "alt")).otherwise(name)
    rows = rows.with_columns(pl.when(name == ".").then(built).otherwise(completed).alias("variant_id"))
    return rows.select(*VARIANT_COLUMNS, *(one.name for one in more[0]))


def columns_of(sites_of: Sequence[SiteField]) -> pl.Schema:
    """The columns of a variant's row, with those of these fields."""
    return pl.Schema({**VARIANT_COLUMNS, **{one.name: one.dtype for one in sites_of}})


def concat_records(chunks: Sequence[VcfRecords], header: VcfHeader, field: Field, sites_of: Sequence[SiteField] = ()) -> VcfRecords:
    """The records of several chunks in turn; an empty table of the header's samples where there are none."""
    width = packed_width(len(header.samples)) if field == "calls" else len(header.samples)
    none = np.zeros((0, width), np.uint8 if field == "calls" else np.float32)
    variants = pl.concat([pl.DataFrame(schema=columns_of(sites_of)), *(chunk.variants for chunk in chunks)]).rechunk()
    array = np.concatenate([none, *(chunk.array for chunk in chunks)])
    return VcfRecords(variants, array, sum((chunk.counts for chunk in chunks), VcfCounts()))
