"""Rows of different lengths in one array, one after the other: the row and place of each entry, and what two alleles share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Rows of codes or letters: row i is `values[first[i] : first[i] + length[i]]`."""

    values: NDArray[np.uint8]
    first: Counts
    length: Counts

    @staticmethod
    def of(values: NDArray[np.uint8], length: Counts) -> Ragged:
        """Rows that lie one after the other, `uint8[sum of length]`."""
        return Ragged(values, np.cumsum(length) - length, length)

    def taken(self, rows: NDArray[np.intp]) -> Ragged:
        """Some of the rows, on the same values."""
        return Ragged(self.values, self.first[rows], self.length[rows])


def entries(length: Counts) -> tuple[NDArray[np.intp], Counts]:
    """The row, and the place in it from 0, of every entry of rows of these lengths, `int64[sum of length]` each."""
    row = np.repeat(np.arange(len(length)), length)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)


def shared_ends(left: Ragged, right: Ragged) -> tuple[Counts, Counts]:
    """How many entries two alleles share at their beginning, and how many more at their end, `int64[n]` each.

    What is counted at the beginning is not counted again, so that A and AA share one entry at the beginning and none at the end.
    """
    least = np.minimum(left.length, right.length)
    begin = _shared(left, right, least, backward=False)
    return begin, _shared(left, right, least - begin, backward=True)


def _shared(left: Ragged, right: Ragged, most: Counts, *, backward: bool) -> Counts:
    found = np.zeros(len(most), np.int64)
    rows, step = np.flatnonzero(most > 0), 0
    while rows.size:
        at = [side.first[rows] + (side.length[rows] - 1 - step if backward else step) for side in (left, right)]
        rows = rows[left.values[at[0]] == right.values[at[1]]]
        found[rows] += 1
        step += 1
        rows = rows[most[rows] > step]
    return found
