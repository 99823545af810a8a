"""The sample columns of VCF records: text of genotypes to packed calls, vectorized over bytes.

Two ways lead to the same codes. Records whose every field is `a/b` or `a|b` with alleles 0, 1 and `.` are words of four bytes, a/b and the
tab. All others go by the positions of their tabs and the four characters after each; what even these do not show (alleles of two digits) is
read field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.kernels.genotypes import MISSING, pack, packed_width

TAIL = 9
"""Index of a record's sample columns, the tenth field when it is split nine times."""

_FORMAT = 8
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
_WORD = np.uint32(_SEPARATOR << 8 | _TAB << 24)
# Bits that no word of a good record has after _WORD is taken out, by its number of ALT alleles: at 0 an allele is 0 or `.`, at 1 also 1.
_NEVER = np.array([0xFFFBFFFB, 0xFFFAFFFA], np.uint32)


@dataclass(frozen=True)
class Records:
    """Records of a VCF, each split nine times at its tabs, with its number of ALT alleles `n_alts: int64[records]`."""

    path: str
    samples: tuple[str, ...]
    fields: Sequence[list[bytes]]
    n_alts: NDArray[np.int64]

    def take(self, chosen: NDArray[np.bool_]) -> Records:
        """The records that are chosen."""
        fields = self.fields if chosen.all() else [self.fields[i] for i in np.flatnonzero(chosen).tolist()]
        return Records(self.path, self.samples, fields, self.n_alts[chosen])

    def where(self, index: int) -> str:
        """Path and place of a record, for a message."""
        return f"{self.path}: record {b':'.join(self.fields[index][:2])[:80].decode(errors='replace')}"

    def refuse_field_count(self, index: int) -> InputError:
        """The error for a record that has too few or too many sample columns."""
        found, n_samples = b"\t".join(self.fields[index]).count(b"\t") + 1, len(self.samples)
        return InputError(
            f"{self.where(index)} has {found} fields where {TAIL + n_samples} are expected ({TAIL} and {n_samples} samples); "
            "is the file cut, or are its fields separated by something else than tabs?"
        )


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
    row_of = np.cumsum(n_alts) - n_alts
    has_gt = np.fromiter((_has_gt(records, i) for i in range(len(n_alts))), np.bool_, len(n_alts))
    lengths = np.fromiter((len(fields[TAIL]) for fields in records.fields), np.int64, len(n_alts))
    quick = has_gt & (n_alts <= 1) & (lengths == 4 * n_samples - 1)
    half_missing = haploid = 0
    if quick.any():
        codes, good, half_missing = _quick_codes(records.take(quick))
        quick[quick] = good
        some = n_alts[quick] == 1
        calls[row_of[quick][some]] = pack(codes if some.all() else codes[some])
    slow = has_gt & ~quick
    if slow.any():
        codes, rows_half_missing, haploid = _codes(records.take(slow))
        half_missing += rows_half_missing
        calls[np.repeat(slow, n_alts)] = pack(codes)
    for index in np.flatnonzero(~has_gt).tolist():
        if records.fields[index][TAIL].count(b"\t") != n_samples - 1:
            raise records.refuse_field_count(index)
    calls[np.repeat(~has_gt, n_alts)] = pack(np.full((1, n_samples), MISSING, np.uint8))
    return PackedRecords(calls, half_missing, haploid, int((~has_gt).sum()))


def _has_gt(records: Records, index: int) -> bool:
    """Whether a record has genotypes; InputError where GT is not the first key of its FORMAT, as it must be."""
    keys = records.fields[index][_FORMAT]
    if keys == b"GT" or keys.startswith(b"GT:"):
        return True
    if b"GT" in keys.split(b":"):
        found = keys.decode(errors="replace")
        raise InputError(
            f"{records.where(index)}: GT must be the first key of FORMAT, found {found!r}; write the file again with bcftools view"
        )
    return False


def _quick_codes(records: Records) -> tuple[NDArray[np.uint8], NDArray[np.bool_], int]:
    """Codes `uint8[good records, samples]` of records that are words throughout, which records these are, and their half-missing calls."""
    text = b"\t".join([fields[TAIL] for fields in records.fields]) + b"\t"
    words = np.frombuffer(text.translate(_CLASSES), "<u4").reshape(len(records.fields), -1) ^ _WORD
    bits = np.bitwise_or.reduce(words, axis=1)
    good = (bits & _NEVER[records.n_alts]) == 0
    if not good.all():
        words, bits = words[good], bits[good]
    # Both alleles of a word at once: their sum is the code, and 4, 5 or 8 where one or both are missing.
    words += words >> 16
    sums = words.astype(np.uint8)
    if not np.any(bits & (_DOT | _DOT << 16)):
        return sums, good, 0
    half_missing = int(np.count_nonzero(sums & _DOT))
    return np.minimum(sums, MISSING, out=sums), good, half_missing


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
    text = records.fields[index][TAIL].split(b"\t")[sample].split(b":", 1)[0].decode(errors="replace")
    return InputError(
        f"{records.where(index)}, sample {records.samples[sample]!r}: {text!r} {what}; "
        "correct the record, or take it out of the file (bcftools view --exclude or --targets)"
    )
