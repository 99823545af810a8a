"""Rows found by whole numbers that are their keys: a table of them, filled and probed by compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

ROOMY = 1.5  # places of a table for a key, at least
SMALL, GROWS = 16, 3  # bits of the places of a table that grows


@dataclass(frozen=True)
class KeyRows:
    """The first row of every key, Int64 from 0 on, of some; a key below 0 is none. `after` of each row the next one with its key, or -1.

    `again`: how many rows are such a next one.
    """

    keys: np.ndarray[Any, Any]
    rows: np.ndarray[Any, Any]
    shift: np.uint64
    after: np.ndarray[Any, Any]
    again: int

    @staticmethod
    def of(keys: pl.Series) -> KeyRows:
        """Of these keys; null is none."""
        from pipeline.kernels.compiled import key_rows

        numbers = keys.fill_null(-1).to_numpy()
        bits = max(1, int(ROOMY * len(keys))).bit_length()
        rows, after, shift = np.full(1 << bits, -1, np.int32), np.full(len(keys), -1, np.int32), np.uint64(64 - bits)
        return KeyRows(numbers, rows, shift, after, key_rows.put(numbers, rows, after, shift))

    def first(self, asked: pl.Series) -> pl.Series:
        """The first row of each key that is asked for, Int32; null where there is none, and of null."""
        from pipeline.kernels.compiled import key_rows

        found = np.empty(len(asked), np.int32)
        key_rows.find(asked.fill_null(-1).to_numpy(), self.keys, self.rows, self.shift, found)
        return from_zero(found)


def a_row_each(keys: pl.Series) -> np.ndarray[Any, Any]:
    """A row of every key there is, in any order; none is missing.

    By a table of as many places as there are keys, not rows: it begins small and grows, so the processor's memory holds that of a few.
    """
    from pipeline.kernels.compiled import key_rows

    numbers, bits = keys.to_numpy(), SMALL
    while not key_rows.put_first(numbers, rows := np.full(1 << bits, -1, np.int32), np.uint64(64 - bits)):
        bits += GROWS
    return rows[rows >= 0]


def from_zero(numbers: np.ndarray[Any, Any]) -> pl.Series:
    """The whole numbers, null where they are below 0."""
    found = pl.Series(numbers)
    return pl.select(pl.when(found >= 0).then(found)).to_series()
