"""BCF records to sites and packed calls (BCF 2.2, section 6 of the VCF specification).

A record is two lengths, eight fixed numbers, typed values of the site, and then for each key of FORMAT a typed array of all samples. A
typed value begins with a byte of its kind (low four bits) and how many there are (high four bits, 15 where another value says it).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined
from pipeline.kernels.genotypes import MISSING

Number = Any
"""A whole number of 64 bits: the compiler's, or the interpreter's."""
CHAR, INT8 = 7, 1
"""Kinds of values."""
START, CHROM, POS, ALLELES, ID, REF, GT, VALUE, COLUMNS = range(9)
"""Columns of a record: where it begins, fixed numbers, and where the typed values of ID, REF, GT and the wanted key begin (-1: none)."""
FIXED = 32
"""Bytes before a record's ID, its two lengths among them."""
_SIZES = np.array([0, 1, 2, 4, 0, 4, 0, 1])
_MISSING, _END = -128, -127
"""Of int8: no value, and no value any more."""


@inlined
def word(data: NDArray[np.uint8], at: Number) -> Number:
    """Four bytes, the first lowest."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24


@inlined
def size_of(kind: Number) -> Number:
    """Bytes of a value of a kind."""
    return np.int64(_SIZES[kind]) if 0 <= kind <= CHAR else 0


@inlined
def typed(data: NDArray[np.uint8], at: Number, end: Number) -> tuple[Number, Number, Number]:
    """Kind, count and where the values of a typed value begin; a kind below 0 where it would reach past `end`."""
    if at >= end:
        return -1, 0, at
    kind, count = np.int64(data[at]) & 15, np.int64(data[at]) >> 4
    at += 1
    if count == 15:
        width = size_of(np.int64(data[at]) & 3) if at < end else 0
        if width == 0 or at + 1 + width > end:
            return -1, 0, at
        count = np.int64(0)
        for place in range(width):
            count |= np.int64(data[at + 1 + place]) << 8 * place
        at += 1 + width
    return kind, count, at


@inlined
def integer(data: NDArray[np.uint8], kind: Number, at: Number) -> Number:
    """A whole number that is not below 0."""
    if kind == 3:
        return word(data, at)
    return np.int64(data[at]) if kind == 1 else np.int64(data[at]) | np.int64(data[at + 1]) << 8


@inlined
def _find_keys(
    data: NDArray[np.uint8], places: tuple[Number, Number], keys: tuple[Number, Number, Number], samples: Number, row: NDArray[np.int64]
) -> bool:
    """Note where the values of GT and of a wanted key begin, of so many keys between two places; whether these hold them all."""
    place, end = places
    for _ in range(keys[0]):
        kind, size, place = typed(data, place, end)
        if kind < 1 or kind > 3 or size != 1 or place + size_of(kind) > end:
            return False
        key, begin = integer(data, kind, place), place + size_of(kind)
        kind, size, place = typed(data, begin, end)
        place += size * size_of(kind) * samples
        if kind < 0 or place > end:
            return False
        if key == keys[1]:
            row[GT] = begin
        elif key == keys[2]:
            row[VALUE] = begin
    return True


@compiled
def find_records(data: NDArray[np.uint8], keys: tuple[int, int], samples: int, table: NDArray[np.int64]) -> tuple[int, bool]:
    """Fill `table: int64[records, COLUMNS]` of whole records; how many, and whether the last of them is none.

    `keys`: numbers of GT and of the wanted key, -1 for none.
    """
    at: Number = 0
    count = 0
    while at + FIXED <= len(data) and count < len(table):
        shared, end = at + 8 + word(data, at), at + 8 + word(data, at) + word(data, at + 4)
        row = table[count]
        count += 1
        if shared < at + FIXED or end < shared or end > len(data):
            return count, True
        row[START], row[CHROM], row[POS] = at, word(data, at + 8), np.int32(word(data, at + 12)) + 1
        row[ALLELES], row[ID], row[GT], row[VALUE] = word(data, at + 24) >> 16, at + FIXED, -1, -1
        kind, size, place = typed(data, at + FIXED, shared)
        row[REF] = place + size
        if kind not in (0, CHAR) or row[REF] > shared or word(data, at + 28) & 0xFFFFFF != samples:
            return count, True
        place = row[REF]
        for _ in range(row[ALLELES]):
            kind, size, place = typed(data, place, shared)
            place += size
            if kind not in (0, CHAR) or place > shared:
                return count, True
        if not _find_keys(data, (shared, end), (word(data, at + 28) >> 24, keys[0], keys[1]), samples, row):
            return count, True
        at = end
    return count, at != len(data)


@compiled
def after(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the typed texts that begin at these places end."""
    ends = np.empty_like(starts)
    for record in range(len(starts)):
        _, size, place = typed(data, starts[record], len(data))
        ends[record] = place + size
    return ends


@compiled
def copy_texts(
    data: NDArray[np.uint8], starts: NDArray[np.int64], counts: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Texts of typed values with commas between those of a record, `.` for none: `counts` of each record from `starts` on.

    `offsets: int64[records + 1]` gets where the texts begin and end.
    """
    text = np.empty(16 * len(starts) + 64, np.uint8)
    used: Number = 0
    for record in range(len(starts)):
        offsets[record] = used
        place = starts[record]
        for number in range(max(1, counts[record])):
            _, size, place = typed(data, place, len(data)) if counts[record] else (0, 0, place)
            while used + size + 2 > len(text):
                more = np.empty(2 * len(text), np.uint8)
                more[:used] = text[:used]
                text = more
            if number:
                text[used] = ord(",")
                used += 1
            if size == 0:
                text[used] = ord(".")
                used += 1
            text[used : used + size] = data[place : place + size]
            used, place = used + size, place + size
    offsets[len(starts)] = used
    return text[:used]


def _told() -> NDArray[np.uint8]:
    """What two bytes of a diploid record of one ALT allele are: the code, 4 half-missing, 8 haploid, 16 an allele that is not there."""
    found = np.zeros((256, 256), np.uint8)
    alleles = [-1 if byte - 256 * (byte > 127) <= _END else (byte - 256 * (byte > 127) >> 1) - 1 for byte in range(256)]
    for first, one in enumerate(alleles):
        for second, own in enumerate(alleles):
            is_haploid = second == _END + 256
            other = one if is_haploid else own
            code = MISSING if one < 0 or other < 0 else (one == 1) + (other == 1)
            odd = 4 * ((one < 0) != (other < 0)) + 8 * (is_haploid and one >= 0) + 16 * (max(one, other) > 1)
            found[second, first] = code + odd
    return found.ravel()


_DIPLOID = _told()


@inlined
def _read_diploid(data: NDArray[np.uint8], place: Number, samples: int, row: NDArray[np.uint8]) -> tuple[Number, Number, Number]:
    """Packed calls of a record of one ALT allele with two bytes a sample; half-missing, haploid, and wrong ones among them."""
    half, haploid, wrong = np.int64(0), np.int64(0), np.int64(0)
    for byte in range(len(row)):
        code = np.int64(0)
        for sample in range(4 * byte, min(4 * byte + 4, samples)):
            told = np.int64(_DIPLOID[np.int64(data[place + 2 * sample]) | np.int64(data[place + 2 * sample + 1]) << 8])
            code |= (told & 3) << 2 * (sample & 3)
            half += told >> 2 & 1
            haploid += told >> 3 & 1
            wrong += told >> 4
        row[byte] = code
    return half, haploid, wrong


@inlined
def _code(first: Any, second: Any, allele: int) -> Number:
    return MISSING if first < 0 or second < 0 else int(first == allele) + int(second == allele)


@compiled
def read_calls(
    data: NDArray[np.uint8],
    table: NDArray[np.int64],
    n_alts: NDArray[np.int64],
    samples: int,
    packed: NDArray[np.uint8],
    odd: NDArray[np.bool_],
) -> tuple[int, int]:
    """Packed calls of records whose GT is of one or two bytes a sample; half-missing and haploid calls among them.

    Marks records as `odd` that have no GT, more alleles in one, larger numbers, or an allele that the record does not have.
    """
    values, row, half, haploid = data.view(np.int8), 0, 0, 0
    for record in range(len(table)):
        alts = n_alts[record]
        kind, ploidy, place = typed(data, table[record, GT], len(data)) if table[record, GT] >= 0 else (0, 0, 0)
        if kind != INT8 or ploidy not in (1, 2):
            odd[record] = True
            row += alts
            continue
        if ploidy == 2 and alts == 1:
            met_half, met_haploid, wrong = _read_diploid(data, place, samples, packed[row])
            odd[record] = wrong > 0
            half, haploid, row = half + met_half * (wrong == 0), haploid + met_haploid * (wrong == 0), row + 1
            continue
        met_half, met_haploid, most = 0, 0, np.int64(0)
        for sample in range(samples):
            first = values[place + ploidy * sample]
            second = values[place + 2 * sample + 1] if ploidy == 2 else np.int8(_END)
            one = -1 if first <= _END else (first >> 1) - 1
            other = one if second == _END else -1 if second == _MISSING else (second >> 1) - 1
            met_haploid += second == _END and one >= 0
            met_half += (one < 0) != (other < 0)
            most = max(most, np.int64(one), np.int64(other))
            for allele in range(1, alts + 1):
                packed[row + allele - 1, sample >> 2] |= np.uint8(_code(one, other, allele) << 2 * (sample & 3))
        odd[record] = most > alts
        half, haploid, row = half + met_half, haploid + met_haploid, row + alts
    return half, haploid
