"""Genotypes of VCF records by the positions of their tabs, in NumPy: what the compiled kernel leaves, and its oracle.

The four characters after each tab show nearly every genotype; what even these do not (alleles of two digits) is read field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.formats._vcf.records import TAIL, Records
from pipeline.kernels.genotypes import MISSING, pack, packed_width

_DOT, _MANY, _SEPARATOR, _TAB, _COLON, _OTHER = 0x04, 0x10, 0x20, 0x40, 0x41, 0x80


def _classes() -> bytes:
    """What each byte is: 0 and 1 as they are, `.` 4, digits 2 to 9 0x12 to 0x19, a separator, an end of the field, or other."""
    table = bytearray([_OTHER] * 256)
    table[ord("0") : ord("9") + 1] = bytes([0, 1, *range(_MANY + 2, _MANY + 10)])
    table[ord(".")], table[ord("\t")], table[ord(":")] = _DOT, _TAB, _COLON
    table[ord("/")] = table[ord("|")] = _SEPARATOR
    return bytes(table)


_CLASSES = _classes()
_ALLELES = np.array([-1 if code == _DOT else code & 15 for code in range(256)], np.int16)


@dataclass(frozen=True)
class PackedRecords:
    """Packed calls `uint8[rows, ceil(samples / 4)]`, a row for each ALT allele of each record in turn, and how many calls were odd."""

    calls: NDArray[np.uint8]
    half_missing: int
    haploid: int
    without_gt: int


def pack_records(records: Records) -> PackedRecords:
    """Read the genotypes of records that have nine fields and the sample columns.

    A record without GT is missing throughout. InputError, with the record, the sample and the text, for a genotype that cannot be, for more
    than two alleles in one, and for a record with too few or too many sample columns.
    """
    n_samples, n_alts = len(records.samples), records.n_alts
    calls = np.zeros((int(n_alts.sum()), packed_width(n_samples)), np.uint8)
    has_gt = np.fromiter((_has_gt(records, i) for i in range(len(n_alts))), np.bool_, len(n_alts))
    half_missing = haploid = 0
    if has_gt.any():
        codes, half_missing, haploid = _codes(records.take(has_gt))
        calls[np.repeat(has_gt, n_alts)] = pack(codes)
    for index in np.flatnonzero(~has_gt).tolist():
        records.sample_fields(index)
    calls[np.repeat(~has_gt, n_alts)] = pack(np.full((1, n_samples), MISSING, np.uint8))
    return PackedRecords(calls, half_missing, haploid, int((~has_gt).sum()))


def _has_gt(records: Records, index: int) -> bool:
    """Whether a record has genotypes; InputError where GT is not the first key of its FORMAT, as it must be."""
    keys = records.keys(index)
    if b"GT" in keys[1:]:
        found = b":".join(keys).decode(errors="replace")
        raise InputError(
            f"{records.where(index)}: GT must be the first key of FORMAT, found {found!r}; write the file again with bcftools view"
        )
    return keys[0] == b"GT"


def _codes(records: Records) -> tuple[NDArray[np.uint8], int, int]:
    """Codes `uint8[rows, samples]` of any records with GT, a row for each ALT allele, and how many calls are half-missing and haploid."""
    first, second, haploid = _alleles(records)
    n_alts = records.n_alts
    shape = len(n_alts), len(records.samples)
    largest = np.maximum(first, second).reshape(shape)
    above = largest > n_alts[:, None]
    if above.any():
        index, sample = (int(axis[0]) for axis in np.nonzero(above))
        raise _impossible(records, index, sample, f"has allele {largest[index, sample]}, but the record has {n_alts[index]} ALT allele(s)")
    missing = ((first < 0) | (second < 0)).reshape(shape)
    half_missing = int(np.count_nonzero((first < 0) != (second < 0)))
    record = np.repeat(np.arange(len(n_alts)), n_alts)
    allele = (np.arange(len(record)) - np.repeat(np.cumsum(n_alts) - n_alts, n_alts) + 1)[:, None]
    codes: NDArray[np.uint8] = (first.reshape(shape)[record] == allele).astype(np.uint8)
    codes += second.reshape(shape)[record] == allele
    codes[missing[record]] = MISSING
    return codes, half_missing, haploid


def _alleles(records: Records) -> tuple[NDArray[np.int16], NDArray[np.int16], int]:
    """Both alleles of every call, `int16[records * samples]` each, -1 where missing, and how many calls are haploid (both the same)."""
    # Three more tabs, so that four characters follow the start of every field.
    text = b"\t".join([fields[TAIL] for fields in records.fields]) + b"\t\t\t\t"
    tabs = np.flatnonzero(np.frombuffer(text, np.uint8)[:-3] == ord("\t"))
    _check_field_counts(records, tabs)
    starts = np.empty_like(tabs)
    starts[0], starts[1:] = 0, tabs[:-1] + 1
    classes = np.frombuffer(text.translate(_CLASSES), np.uint8)
    one, two, three, four = (classes[offset:][starts] for offset in range(4))
    haploid = (one < _SEPARATOR) & (two & 0xFE == _TAB)
    diploid = (one < _SEPARATOR) & (two == _SEPARATOR) & (three < _SEPARATOR) & (four & 0xFE == _TAB)
    first, second = _ALLELES[one], _ALLELES[np.where(haploid, one, three)]
    for i in np.flatnonzero(~(haploid | diploid)).tolist():
        index, sample = divmod(i, len(records.samples))
        alleles = _exact_alleles(records, index, sample, text[starts[i] : tabs[i]])
        first[i], second[i], haploid[i] = alleles[0], alleles[-1], len(alleles) == 1
    return first, second, int(np.count_nonzero(haploid & (first >= 0)))


def _check_field_counts(records: Records, tabs: NDArray[Any]) -> None:
    """InputError for the first record whose sample columns are not as many as the samples."""
    n_samples = len(records.samples)
    ends = np.cumsum([len(fields[TAIL]) + 1 for fields in records.fields]) - 1
    if len(tabs) == n_samples * len(ends) and np.array_equal(tabs[n_samples - 1 :: n_samples], ends):
        return
    counts = (fields[TAIL].count(b"\t") + 1 for fields in records.fields)
    raise records.refuse_field_count(next(index for index, count in enumerate(counts) if count != n_samples))


def _exact_alleles(records: Records, index: int, sample: int, field: bytes) -> list[int]:
    """The one or two alleles of a field, -1 where missing; VCF 4.4 allows a separator before the first."""
    parts = field.split(b":", 1)[0].replace(b"|", b"/").removeprefix(b"/").split(b"/")
    if len(parts) > 2:
        raise _impossible(records, index, sample, f"has {len(parts)} alleles; only haploid and diploid calls can be read")
    if not all(part == b"." or (part.isdigit() and len(part) < 5) for part in parts):
        raise _impossible(records, index, sample, "is not a genotype (allele numbers or '.', separated by / or |)")
    return [-1 if part == b"." else int(part) for part in parts]


def _impossible(records: Records, index: int, sample: int, what: str) -> InputError:
    text = records.sample_fields(index)[sample].split(b":", 1)[0].decode(errors="replace")
    return records.refuse_sample(index, sample, text, what)
