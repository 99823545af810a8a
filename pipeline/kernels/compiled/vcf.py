"""Records of a VCF as bytes: where their fields are, and what the first five say.

`text: uint8[bytes]` holds whole lines. `bounds: int64[records, 11]` has where each of the nine fixed fields begins, where the first sample
column begins, and where the line ends (its line end, and a carriage return before it, left out).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.kernels.compiled.jit import compiled, inlined, popcount, word_at

FIXED = 9
"""Number of the fixed fields, and the column of `bounds` that has where the samples begin."""

END = 10
"""The column of `bounds` that has where the line ends."""

NON_ASCII, SYMBOLIC, UNNAMED = 1, 2, 4
"""What `find_records` met: a byte past 127 in the first five fields, an ALT of other than letters and commas, an ID of '.'."""

_TAB, _NEWLINE, _RETURN, _HASH, _COMMA, _DOT, _ZERO, _NINE = 9, 10, 13, 35, 44, 46, 48, 57
_BLOCK = 64
_TABS, _LOW_BITS, _HIGH_BITS = (np.uint64(byte * 0x0101010101010101) for byte in (_TAB, 1, 128))


@inlined
def _line_end(text: NDArray[np.uint8], at: int) -> int:
    """Where the line that holds `at` ends: its line end, or the end of the text."""
    size = len(text)
    while at + _BLOCK <= size:
        found = False
        for byte in text[at : at + _BLOCK]:
            found |= byte == _NEWLINE
        if found:
            break
        at += _BLOCK
    while at < size and text[at] != _NEWLINE:
        at += 1
    return at


@compiled
def find_records(text: NDArray[np.uint8], bounds: NDArray[np.int64]) -> tuple[int, int, bool]:
    """Fill `bounds`; lines that are blank or begin with # are passed over.

    Returns the number of records, what was met (NON_ASCII), and whether the last record is one that has fewer than ten fields.
    """
    at, record, met = 0, 0, 0
    while at < len(text):
        end = _line_end(text, at)
        after = end + 1
        if end > at and text[end - 1] == _RETURN:
            end -= 1
        if end > at and text[at] != _HASH:
            field, place = 0, at
            bounds[record, 0], bounds[record, END] = at, end
            while place < end and field < FIXED:
                byte = text[place]
                place += 1
                if byte == _TAB:
                    field += 1
                    bounds[record, field] = place
                elif byte > 127 and field < 5:
                    met |= NON_ASCII
            record += 1
            if field < FIXED:
                return record, met, True
        at = after
    return record, met, False


@compiled
def read_sites(
    text: NDArray[np.uint8], bounds: NDArray[np.int64], positions: NDArray[np.int64], n_alts: NDArray[np.int64]
) -> tuple[int, int]:
    """Fill `positions` and the numbers of ALT alleles, `int64[records]` each.

    Returns the first record with a POS that is no number of up to 18 digits or with an empty field (-1 where none has), and what was met.
    """
    met = 0
    for record in range(len(bounds)):
        starts = bounds[record]
        for field in (0, 2, 3, 4):
            if starts[field + 1] - starts[field] < 2:
                return record, met
        position, digits = np.int64(0), starts[2] - 1 - starts[1]
        for byte in text[starts[1] : starts[2] - 1]:
            if byte < _ZERO or byte > _NINE:
                return record, met
            position = position * 10 + (byte - _ZERO)
        if digits < 1 or digits > 18:
            return record, met
        positions[record] = position
        alt = text[starts[4] : starts[5] - 1]
        alleles, before = 1, np.uint8(_COMMA)
        for byte in alt:
            if byte == _COMMA and before == _COMMA:
                return record, met
            alleles += byte == _COMMA
            if byte != _COMMA and (byte | 32 < 97 or byte | 32 > 122):
                met |= SYMBOLIC
            before = byte
        if before == _COMMA:
            return record, met
        n_alts[record] = 0 if len(alt) == 1 and alt[0] == _DOT else alleles
        if starts[3] - starts[2] == 2 and text[starts[2]] == _DOT:
            met |= UNNAMED
    return -1, met


@compiled
def copy_field(text: NDArray[np.uint8], starts: NDArray[np.int64], offsets: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Copy text of `offsets[i + 1] - offsets[i]` bytes from `starts[i]` to `offsets[i]` of `out`."""
    for row in range(len(starts)):
        source, target = starts[row], offsets[row]
        for i in range(offsets[row + 1] - target):
            out[target + i] = text[source + i]


@inlined
def next_field(text: NDArray[np.uint8], at: int, end: int) -> int:
    """Where the field that holds `at` ends: its tab, or the line's end."""
    while at + 8 <= end:
        word = word_at(text, at) ^ _TABS
        tabs = (word - _LOW_BITS) & ~word & _HIGH_BITS  # the lowest bit set is the first tab's
        if tabs:
            return at + (int(popcount((tabs & -tabs) - np.uint64(1))) >> 3)
        at += 8
    while at < end and text[at] != _TAB:
        at += 1
    return at
