"""CIGAR strings taken apart: how a read lies along the reference (section 1.4.6 of the SAM specification). Of a processor's arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_DIGITS = 9  # of a length at most: below 2^28, as BAM has it
_ON_REFERENCE, _ON_READ = (np.zeros(256, np.bool_) for _ in range(2))
_ON_REFERENCE[[*b"MDN=X"]] = True
_ON_READ[[*b"MIS=X"]] = True
_ALIGNED = np.zeros(256, np.bool_)
_ALIGNED[[*b"M=X"]] = True


class Operations(NamedTuple):
    """Operations of many reads, all `[operations]`, in the reads' order.

    `read` is the number of the read, `code` the letter's byte, `length` in bases; `on_reference` and `on_read` are the bases of each that
    come before the operation, from where the read's alignment and its bases begin.
    """

    read: Integers
    code: NDArray[np.uint8]
    length: Integers
    on_reference: Integers
    on_read: Integers

    def chosen(self, rows: NDArray[np.bool_]) -> Operations:
        """Some of the operations."""
        return Operations(self.read[rows], self.code[rows], self.length[rows], self.on_reference[rows], self.on_read[rows])

    @property
    def aligned(self) -> Operations:
        """Those of bases that lie on bases of the reference (M, =, X)."""
        return self.chosen(_ALIGNED[self.code])


def operations(text: NDArray[np.uint8], offsets: Integers) -> Operations:
    """The operations of CIGAR strings whose bytes lie side by side: read number i has `text[offsets[i]:offsets[i + 1]]`, or none."""
    at = np.flatnonzero((text < ord("0")) | (text > ord("9")))
    read = np.searchsorted(offsets, at, side="right") - 1
    first = np.append(-1, at[:-1]) + 1 if len(at) else at
    length, weight = np.zeros(len(at), np.int64), 1
    for back in range(1, _DIGITS + 1):
        there = at - back >= first
        digit = text[np.where(there, at - back, 0)].astype(np.int64) - ord("0")
        length += np.where(there, digit * weight, 0)
        weight *= 10
    code = text[at]
    return Operations(read, code, length, _before(read, length * _ON_REFERENCE[code]), _before(read, length * _ON_READ[code]))


def reference_lengths(found: Operations, reads: int) -> Integers:
    """Bases of the reference that each of so many reads reaches over, `[reads]`."""
    total = np.bincount(found.read, found.length * _ON_REFERENCE[found.code], minlength=reads)
    return total.astype(np.int64)


def expanded(starts: Integers, lengths: Integers) -> tuple[Integers, Integers]:
    """Every number of ranges [start, start + length), and which range each is of."""
    which = np.repeat(np.arange(len(starts)), lengths)
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths - starts, lengths), which


def _before(read: Integers, amount: Integers) -> Integers:
    """Sum of what the operations of the same read before each have."""
    running: Integers = np.cumsum(amount) - amount
    new = np.append(True, read[1:] != read[:-1])[: len(read)]
    found: Integers = running - np.repeat(running[new], np.diff(np.append(np.flatnonzero(new), len(read))))
    return found
