"""Genotypes of VCF records as bytes, alleles 0 to 9, to packed calls.

`text` and `bounds` are those of kernels/compiled/vcf.py. Records whose every field is `a/b` or `a|b` with alleles 0, 1 and `.` go by words
of four bytes, a/b and the tab; others field by field. What is neither (alleles of two digits, more than two alleles, no GT) is marked odd
and left to the plain code of formats/vcf_calls.py, which is the oracle of this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined
from pipeline.kernels.compiled.vcf import END, FIXED, next_field

_TAB, _DOT, _SLASH, _ZERO, _NINE, _COLON, _G, _T, _BAR = 9, 46, 47, 48, 57, 58, 71, 84, 124
_WORD = np.uint32(_TAB << 24 | _ZERO << 16 | _SLASH << 8 | _ZERO)  # 0/0 and a tab, little-endian
_BAR_BITS, _DOT_BITS = np.uint32(_BAR ^ _SLASH), np.uint32(_DOT ^ _ZERO)
_BYTE, _ONE, _THREE = np.uint32(255), np.uint32(1), np.uint32(3)


@inlined
def _code_words(text: NDArray[np.uint8], codes: NDArray[np.uint8]) -> tuple[bool, int]:
    """Codes of the calls before a record's last; whether all are a/b or a|b of 0, 1 and '.', and how many are half-missing.

    The words are loaded from wherever they lie, which the processors that numba compiles for can do.
    """
    bad, half = np.uint32(0), np.uint32(0)
    words = text.view(np.uint32)
    for i in range(len(words)):
        word = words[i] ^ _WORD
        first, bar, second = word & _BYTE, word >> np.uint32(8) & _BYTE, word >> np.uint32(16)
        no_first, no_second = np.uint32(first == _DOT_BITS), np.uint32(second == _DOT_BITS)
        wrong = (first > _ONE) & (first != _DOT_BITS) | (second > _ONE) & (second != _DOT_BITS) | (bar != 0) & (bar != _BAR_BITS)
        bad |= np.uint32(wrong)
        half += no_first ^ no_second
        codes[i] = min(first + second, _THREE)
    return bad == 0, int(half)


@inlined
def _pack(codes: NDArray[np.uint8], row: NDArray[np.uint8]) -> None:
    """Bytes of four codes each."""
    words = codes.view(np.uint32)
    for i in range(len(row)):
        word = words[i]
        row[i] = (word | word >> np.uint32(6) | word >> np.uint32(12) | word >> np.uint32(18)) & _BYTE


@inlined
def _allele(byte: int, n_alts: int) -> int:
    """The allele that a byte stands for, -1 where it is missing, -2 for what is none of the record's."""
    if byte == _DOT:
        return -1
    return int(byte) - _ZERO if _ZERO <= byte <= _ZERO + n_alts and byte <= _NINE else -2


@compiled
def _read_fields(
    text: NDArray[np.uint8], at: int, end: int, n_alts: int, first: NDArray[np.int8], second: NDArray[np.int8]
) -> tuple[bool, int]:
    """Both alleles of every call, -1 where missing; whether all could be read, and how many calls are haploid and not missing."""
    haploid = 0
    for sample in range(len(first)):
        if at >= end:
            return False, 0
        one = two = _allele(text[at], n_alts)
        stop = at + 1
        if stop < end and (text[stop] == _SLASH or text[stop] == _BAR):
            if at + 2 >= end:
                return False, 0
            two = _allele(text[at + 2], n_alts)
            stop = at + 3
        elif one >= 0:
            haploid += 1
        if one == -2 or two == -2 or (stop < end and text[stop] != _TAB and text[stop] != _COLON):
            return False, 0
        first[sample], second[sample] = one, two
        at = next_field(text, stop, end) + 1
    return at == end + 1, haploid


@inlined
def _read_quick(text: NDArray[np.uint8], at: int, end: int, codes: NDArray[np.uint8]) -> tuple[bool, int]:
    """Fill `codes` from a record of one ALT allele whose every field has three characters; whether it could be, and half-missing calls."""
    done, half = _code_words(text[at : end - 3], codes)
    one, two = _allele(text[end - 3], 1), _allele(text[end - 1], 1)
    if not done or one == -2 or two == -2 or (text[end - 2] != _SLASH and text[end - 2] != _BAR):
        return False, 0
    codes[(end - at) // 4] = 3 if one < 0 or two < 0 else one + two
    return True, half + ((one < 0) != (two < 0))


@inlined
def _pack_alleles(first: NDArray[np.int8], second: NDArray[np.int8], codes: NDArray[np.uint8], rows: NDArray[np.uint8]) -> int:
    """Fill the rows of a record's ALT alleles; returns its half-missing calls."""
    half = 0
    for sample in range(len(first)):
        half += (first[sample] < 0) != (second[sample] < 0)
    for row in range(len(rows)):
        for sample in range(len(first)):
            same = np.uint8(first[sample] == row + 1) + np.uint8(second[sample] == row + 1)
            codes[sample] = np.uint8(3) if first[sample] < 0 or second[sample] < 0 else same
        _pack(codes, rows[row])
    return half


@compiled
def read_calls(
    text: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    n_alts: NDArray[np.int64],
    n_samples: int,
    packed: NDArray[np.uint8],
    odd: NDArray[np.bool_],
) -> tuple[int, int]:
    """Fill `packed`, a row for each ALT allele of each record in turn, and mark in `odd: bool[records]` those that were not read.

    Returns how many calls are half-missing and how many haploid, odd records left out.
    """
    codes = np.zeros(4 * packed.shape[1], np.uint8)
    first, second = np.zeros(n_samples, np.int8), np.zeros(n_samples, np.int8)
    row = half_missing = haploid = 0
    for record in range(len(bounds)):
        at, end, alleles = bounds[record, FIXED], bounds[record, END], n_alts[record]
        keys = text[bounds[record, FIXED - 1] : at - 1]
        read = len(keys) >= 2 and keys[0] == _G and keys[1] == _T and (len(keys) == 2 or keys[2] == _COLON)
        done, half, more = False, 0, 0
        if read and alleles == 1 and end - at == 4 * n_samples - 1:
            done, half = _read_quick(text, at, end, codes)
            if done:
                _pack(codes, packed[row])
        if read and not done:
            done, more = _read_fields(text, at, end, alleles, first, second)
            if done:
                half = _pack_alleles(first, second, codes, packed[row : row + alleles])
        odd[record] = not done
        half_missing += half
        haploid += more
        row += alleles
    return half_missing, haploid
