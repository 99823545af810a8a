"""Whole records of a BCF to variants with packed calls or dosages: what `_vcf/text.py` gives of the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats._bcf.header import BcfHeader
from pipeline.formats._bcf.text import record_fields
from pipeline.formats._vcf.records import TAIL, Records
from pipeline.formats._vcf.site_fields import PLACES, SiteField
from pipeline.formats._vcf.text import KEYS, VARIANT_COLUMNS, Field, VcfCounts, VcfRecords, counted, odd_calls, odd_dosages, rows_of
from pipeline.kernels.genotypes import packed_width

_FLOAT, _INT8 = 5, 1
_MISSING, _END, _END_BYTE = 0x7F800001, 0x7F800002, -127  # no value, and no value any more: floats' bits; an int8


def parse_records(data: bytes, header: BcfHeader, field: Field, sites_of: Sequence[SiteField] = ()) -> VcfRecords:
    """Records that begin where `data` begin and end where they end. InputError, with the record, as for the lines of a VCF."""
    from pipeline.kernels.compiled import bcf

    bytes_ = np.frombuffer(data, np.uint8)
    table = np.empty((len(data) // bcf.FIXED + 1, bcf.COLUMNS), np.int64)
    count, is_wrong = bcf.find_records(bytes_, (header.number("GT"), header.number(KEYS[field])), len(header.vcf.samples), table)
    table = table[:count]
    contigs = table[:, bcf.CHROM]
    if is_wrong or (count and not (contigs.max() < len(header.contigs) and table[:, bcf.ALLELES].min() > 0)):
        raise _damaged(header, f"record {count:,} of some")
    found = _Found(data, header, table, table[:, bcf.ALLELES] - 1)
    sites = found.sites()
    if sites_of:
        columns = [record_fields(data, at, header, genotypes=False) for at in table[:, bcf.START].tolist()]
        sites = sites.with_columns(
            one.texts(lambda place: pl.Series([fields[PLACES[place]].decode() for fields in columns], dtype=pl.String)) for one in sites_of
        )
    unnamed = bool((sites["variant_id"] == ".").any())
    wrong = sites["alt"].str.count_matches(",", literal=True) != pl.Series(np.maximum(found.n_alts - 1, 0))
    if wrong.any():
        raise _damaged(header, f"the allele {sites['alt'][int(wrong.arg_true()[0])]!r}")
    variants = rows_of(sites, found.n_alts, (sites_of, header.vcf.path), unnamed=unnamed)
    variants = variants.with_columns(one.typed(variants, header.vcf.path) for one in sites_of)
    array, met = found.calls() if field == "calls" else found.dosages(KEYS[field])
    return VcfRecords(variants, array, counted(sites, found.n_alts, symbolic=True) + met)


def _damaged(header: BcfHeader, what: str) -> InputError:
    return InputError(f"{header.vcf.path}: {what} is damaged; copy the file, or write it again with bcftools view")


@dataclass(frozen=True)
class _Found:
    """Records whose fields have been found: `table: int64[records, COLUMNS]` of kernels/compiled/bcf.py, `n_alts: int64[records]`."""

    data: bytes
    header: BcfHeader
    table: NDArray[np.int64]
    n_alts: NDArray[np.int64]

    def sites(self) -> pl.DataFrame:
        """The columns of a variant, a record a row."""
        from pipeline.kernels.compiled import bcf

        ones = np.ones(len(self.table), np.int64)
        second = bcf.after(np.frombuffer(self.data, np.uint8), np.ascontiguousarray(self.table[:, bcf.REF]))
        columns = {
            "chromosome": pl.Series(self.header.contigs, dtype=pl.String).gather(self.table[:, bcf.CHROM]),
            "base_pair_location": self.table[:, bcf.POS],
            "variant_id": self._texts(self.table[:, bcf.ID], ones),
            "ref": self._texts(self.table[:, bcf.REF], ones),
            "alt": self._texts(second, self.n_alts),
        }
        return pl.DataFrame(columns, schema=VARIANT_COLUMNS)

    def _texts(self, starts: NDArray[np.int64], counts: NDArray[np.int64]) -> pl.Series:
        import pyarrow as pa

        from pipeline.kernels.compiled.bcf import copy_texts

        offsets = np.zeros(len(starts) + 1, np.int64)
        text = copy_texts(np.frombuffer(self.data, np.uint8), np.ascontiguousarray(starts), np.ascontiguousarray(counts), offsets)
        if (text > 127).any():  # Polars' text is UTF-8; an odd byte is no reason to refuse a file
            return pl.Series(
                [text[low:high].tobytes().decode(errors="replace") for low, high in pairwise(offsets.tolist())], dtype=pl.String
            )
        column = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(text))
        return cast("pl.Series", pl.from_arrow(column))

    def plain(self, chosen: NDArray[np.bool_]) -> Records:
        """Some of the records, for plain code; one without FORMAT has an empty one."""
        fields = [record_fields(self.data, at, self.header) for at in self.table[chosen, 0].tolist()]
        tabs = b"\t" * (len(self.header.vcf.samples) - 1)
        whole = [[*some[:TAIL], some[TAIL] or tabs] for some in fields]
        return Records(self.header.vcf.path, self.header.vcf.samples, whole, self.n_alts[chosen])

    def calls(self) -> tuple[NDArray[np.uint8], VcfCounts]:
        """Packed calls: those that the kernel did not read by plain code."""
        from pipeline.kernels.compiled.bcf import read_calls

        samples = len(self.header.vcf.samples)
        packed = np.zeros((int(self.n_alts.sum()), packed_width(samples)), np.uint8)
        odd = np.zeros(len(self.n_alts), np.bool_)
        half, haploid = read_calls(np.frombuffer(self.data, np.uint8), self.table, self.n_alts, samples, packed, odd)
        return packed, VcfCounts(half_missing_calls=half, haploid_calls=haploid) + odd_calls(
            packed, np.repeat(odd, self.n_alts), self.plain(odd)
        )

    def dosages(self, key: str) -> tuple[NDArray[np.float32], VcfCounts]:
        """ALT dosages, of DS, GP or HDS: of floats and one ALT allele at once, others by plain code."""
        from pipeline.kernels.compiled.bcf import VALUE

        dosages = np.full((int(self.n_alts.sum()), len(self.header.vcf.samples)), np.nan, np.float32)
        rows, odd = np.cumsum(self.n_alts) - self.n_alts, np.zeros(len(self.n_alts), np.bool_)
        has = self.table[:, VALUE] >= 0
        for record in np.flatnonzero(has).tolist():
            found = (_of_ds if key == "DS" else _of_sums)(self, record, key) if self.n_alts[record] == 1 else None
            odd[record] = found is None
            if found is not None:
                dosages[rows[record]] = found
        odd_dosages(dosages, np.repeat(odd, self.n_alts), self.plain(odd), key)
        return dosages, VcfCounts(without_ds=int((~has).sum()))

    def array(self, record: int, column: int, kind: int) -> NDArray[Any] | None:
        """The values `[samples, count]` of a key of a record, bits of floats or int8; None where they are of another kind."""
        from pipeline.kernels.compiled.bcf import typed

        samples, at = len(self.header.vcf.samples), int(self.table[record, column])
        found, count, place = typed(np.frombuffer(self.data, np.uint8), at, len(self.data))
        if found != kind or not count:
            return None
        return np.frombuffer(self.data, np.uint32 if kind == _FLOAT else np.int8, samples * count, place).reshape(samples, count)


def _of_ds(found: _Found, record: int, _key: str) -> NDArray[np.float64] | None:
    """Dosages of one record, those of one copy twice; None where plain code must look."""
    from pipeline.kernels.compiled.bcf import GT, VALUE

    bits, copies = found.array(record, VALUE, _FLOAT), np.full(len(found.header.vcf.samples), 2.0)
    if found.table[record, GT] >= 0:
        genotypes = found.array(record, GT, _INT8)
        if genotypes is None:
            return None
        copies[genotypes[:, -1] == _END_BYTE if genotypes.shape[1] > 1 else slice(None)] = 1
    if bits is None or bits.shape[1] != 1:
        return None
    values = _values(bits)[:, 0]
    return None if ((values < 0) | (values > copies)).any() else values * 2 / copies


def _of_sums(found: _Found, record: int, key: str) -> NDArray[np.float64] | None:
    """Dosages of one record by probabilities or haplotypes; None where plain code must look."""
    from pipeline.kernels.compiled.bcf import VALUE

    bits = found.array(record, VALUE, _FLOAT)
    if bits is None or bits.shape[1] > (2 if key == "HDS" else 3):
        return None
    values, count = _values(bits), (bits != _END).sum(axis=1)
    called = ~np.isnan(values).all(axis=1)
    few = count < (1 if key == "HDS" else 2)
    sums = np.where(bits == _END, 0, values).sum(axis=1)
    if ((values < 0) | (values > 1)).any() or (called & (few | ((sums == 0) & (key == "GP")))).any():
        return None
    if key == "HDS":
        return np.where(called, 2 * sums / np.maximum(count, 1), np.nan)
    copies = np.where(bits == _END, 0, values) @ np.arange(bits.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(called, 2 * copies / (count - 1) / sums, np.nan)


def _values(bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Floats, NaN where there is none."""
    there = np.where((bits == _MISSING) | (bits == _END), np.float32(np.nan).view(np.uint32), bits)
    return there.view(np.float32).astype(np.float64)
