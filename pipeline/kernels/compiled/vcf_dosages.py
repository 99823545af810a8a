"""ALT dosages of VCF records as bytes: the FORMAT field DS, one decimal number for each ALT allele, or what GP and HDS come to.

`text` and `bounds` are those of kernels/compiled/vcf.py. Only plain decimals (0, 1.25, .5) and '.' are read; a record with any other text,
or with a number above 2, is marked as odd and left to the plain code of formats/vcf_dosages.py, which is the oracle of this.

Where GT is haploid (no / or |), as of men on X, DS is of one copy, from 0 to 1, and counts twice, as PLINK 2 has it. GP are the
probabilities of no, one and two copies (of none and one where haploid), HDS the dosages of each haplotype, of one ALT allele alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined
from pipeline.kernels.compiled.vcf import END, FIXED, next_field

DS, GP, HDS = range(3)
_TAB, _COMMA, _DOT, _SLASH, _ZERO, _NINE, _COLON, _G, _T, _BAR = 9, 44, 46, 47, 48, 57, 58, 71, 84, 124
_TENS = 10.0 ** np.arange(16)
_DIGITS = 15  # of these a number is exact in a double, and so is the power of ten that divides it


@inlined
def _place_of(keys: NDArray[np.uint8], name: NDArray[np.uint8]) -> int:
    """Which of the keys of FORMAT has that name, from 0; -1 where none has."""
    place, begin = 0, 0
    for at in range(len(keys) + 1):
        if at == len(keys) or keys[at] == _COLON:
            if at - begin == len(name) and (keys[begin:at] == name).all():
                return place
            place, begin = place + 1, at + 1
    return -1


@inlined
def _begins_with_gt(keys: NDArray[np.uint8]) -> bool:
    """Whether the first key of FORMAT is GT and others follow."""
    return len(keys) > 2 and keys[0] == _G and keys[1] == _T and keys[2] == _COLON


@inlined
def _read_number(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, float]:
    """Where the number that begins at `at` ends, and its value: NaN for '.', -1 for what is no plain decimal."""
    begin, mantissa, digits, decimals, dotted = at, np.int64(0), 0, 0, False
    while at < end:
        byte = text[at]
        if byte == _DOT and not dotted:
            dotted = True
        elif _ZERO <= byte <= _NINE:
            mantissa = mantissa * 10 + (byte - _ZERO)
            digits += 1
            decimals += dotted
        else:
            break
        at += 1
    if digits == 0:
        return at, np.nan if at == begin + 1 else -1.0
    return at, mantissa / _TENS[decimals] if digits <= _DIGITS else -1.0


@inlined
def _to_value(text: NDArray[np.uint8], at: int, end: int, place: int) -> tuple[int, int, bool]:
    """Where a sample's value of that place begins, how many colons came before, and whether its first one has a / or |."""
    colons, separated = 0, False
    while at < end and colons < place and text[at] != _TAB:
        separated |= colons == 0 and (text[at] == _SLASH or text[at] == _BAR)
        colons += text[at] == _COLON
        at += 1
    return at, colons, separated


@compiled
def _read_fields(text: NDArray[np.uint8], at: int, end: int, where: tuple[int, bool], dosages: NDArray[np.float32]) -> bool:
    """Fill `dosages: float32[ALT alleles, samples]` of one record; whether all could be read. `where`: the place of DS, and GT is first."""
    place, has_gt = where
    alleles, n_samples = dosages.shape
    for sample in range(n_samples):
        if at > end:
            return False
        at, colons, separated = _to_value(text, at, end, place)
        dosages[:, sample] = np.nan
        if colons == place and at < end and text[at] != _TAB:
            for allele in range(alleles):
                at, dosage = _read_number(text, at, end)
                dosage *= 2 if has_gt and not separated else 1
                if dosage < 0 or dosage > 2:
                    return False
                dosages[allele, sample] = dosage
                if allele == 0 and np.isnan(dosage) and (at >= end or text[at] != _COMMA):
                    break  # one '.' for all alleles
                if allele < alleles - 1:
                    if at >= end or text[at] != _COMMA:
                        return False
                    at += 1
            if alleles and at < end and text[at] != _TAB and text[at] != _COLON:
                return False
        at = next_field(text, at, end) + 1
    return at == end + 1


@inlined
def _several(text: NDArray[np.uint8], at: int, end: int, numbers: NDArray[np.float64]) -> tuple[int, int]:
    """Read up to three numbers with commas between: where they end, and how many they are; 0 for what cannot be read."""
    count = 0
    while count < 3:
        at, number = _read_number(text, at, end)
        if number < 0 or number > 1:
            return at, 0
        numbers[count] = number
        count += 1
        if at >= end or text[at] != _COMMA:
            break
        at += 1
    return at, count


@inlined
def _dosage_of(kind: int, numbers: NDArray[np.float64], count: int) -> float:
    """What so many numbers of GP or HDS come to: NaN where one is missing, -1 for what they cannot be."""
    total = numbers[:count].sum()
    if count == 0 or (kind == HDS and count == 3):
        return -1.0
    if kind == HDS:
        return float(2 * total / count)
    if np.isnan(total):
        return np.nan
    if count == 1 or total == 0:
        return -1.0
    return float(2 * (numbers[1] + (2 * numbers[2] if count == 3 else 0.0)) / (count - 1) / total)


@compiled
def _read_sums(text: NDArray[np.uint8], at: int, end: int, where: tuple[int, int], dosages: NDArray[np.float32]) -> bool:
    """Fill `dosages: float32[samples]` of a record of one ALT allele; whether all could be read. `where`: the place, and GP or HDS."""
    place, kind = where
    numbers = np.empty(3)
    for sample in range(len(dosages)):
        if at > end:
            return False
        at, colons, _ = _to_value(text, at, end, place)
        dosages[sample] = np.nan
        if colons == place and at < end and text[at] != _TAB:
            at, count = _several(text, at, end, numbers)
            dosages[sample] = _dosage_of(kind, numbers, count)
            if dosages[sample] < 0 or (at < end and text[at] != _TAB and text[at] != _COLON):
                return False
        at = next_field(text, at, end) + 1
    return at == end + 1


@compiled
def read_sums(
    text: NDArray[np.uint8], bounds: NDArray[np.int64], n_alts: NDArray[np.int64], key: tuple[NDArray[np.uint8], int],
    dosages: NDArray[np.float32], odd: NDArray[np.bool_],
) -> int:  # fmt: skip
    """As `read_dosages`, of GP or HDS: `key` is the name and which it is. Records of several ALT alleles are odd."""
    row = without = 0
    for record in range(len(bounds)):
        at, alleles = bounds[record, FIXED], n_alts[record]
        place = _place_of(text[bounds[record, FIXED - 1] : at - 1], key[0])
        without += place < 0
        dosages[row : row + alleles] = np.nan
        if alleles > 1:
            odd[record] = place >= 0
        elif alleles == 1:
            place = 1 << 40 if place < 0 else place
            odd[record] = not _read_sums(text, at, bounds[record, END], (place, key[1]), dosages[row])
        row += alleles
    return without


@compiled
def read_dosages(
    text: NDArray[np.uint8], bounds: NDArray[np.int64], n_alts: NDArray[np.int64], dosages: NDArray[np.float32], odd: NDArray[np.bool_]
) -> int:
    """Fill `dosages: float32[rows, samples]`, a row for each ALT allele of each record in turn, NaN where missing.

    Marks in `odd: bool[records]` those that were not read; returns how many records have no DS.
    """
    name = np.array([68, 83], np.uint8)  # DS
    row = without = 0
    for record in range(len(bounds)):
        at, alleles = bounds[record, FIXED], n_alts[record]
        keys = text[bounds[record, FIXED - 1] : at - 1]
        place = _place_of(keys, name)
        without += place < 0
        place = 1 << 40 if place < 0 else place  # no field has so many parts
        odd[record] = not _read_fields(text, at, bounds[record, END], (place, _begins_with_gt(keys)), dosages[row : row + alleles])
        row += alleles
    return without
