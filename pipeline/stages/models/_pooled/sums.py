"""Exact sums of products of columns, in fixed point: whole numbers of any size, so that no order of rows or parts can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from operator import mul

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.tables.part import Part

INTERCEPT = "(intercept)"
VALUE_BITS = 64
"""A value is below 2^64, so that sums of 2^64 products have room in the numbers that are masked."""
MOST_DIGITS = 128


@dataclass(frozen=True)
class Sums:
    """Of the complete rows of some parts: the sum of each entry in units of 2^(-2 digits), these rows, and those with a missing value."""

    entries: tuple[int, ...]
    rows: int
    left_out: int


def entries_of(columns: Sequence[str]) -> list[tuple[str, str]]:
    """The upper triangle of the products of the columns, row by row; the first entry, of the intercept with itself, counts rows."""
    return list(combinations_with_replacement(columns, 2))


def summed(part: Part, columns: Sequence[str], digits: int) -> Sums:
    """Of one part; `columns` without the intercept. Raises DataError for a value that the fixed point cannot hold."""
    frame = part.frame.select(columns)
    known = frame.with_columns(pl.selectors.float().fill_nan(None)).drop_nulls()
    numbers = [[1 << digits] * known.height, *(fixed(known[name], digits) for name in columns)]
    entries = tuple(sum(map(mul, *pair)) for pair in combinations_with_replacement(numbers, 2))
    return Sums(entries, known.height, frame.height - known.height)


def added(parts: Sequence[Sums]) -> Sums:
    """Of all their rows."""
    entries = zip(*(part.entries for part in parts), strict=True)
    return Sums(tuple(map(sum, entries)), sum(part.rows for part in parts), sum(part.left_out for part in parts))


def fixed(column: pl.Series, digits: int) -> list[int]:
    """Values, none missing, in units of 2^-digits, exactly. Raises DataError for one that is too large, or no multiple of the unit."""
    if not column.dtype.is_float():
        whole = [int(value) for value in column.to_list()]
        if any(abs(value) >> VALUE_BITS for value in whole):
            raise _too_large(column.name)
        return [value << digits for value in whole]
    values = column.cast(pl.Float64).to_numpy()
    if (np.abs(values) >= 2.0**VALUE_BITS).any():
        raise _too_large(column.name)
    scaled = np.ldexp(values, digits)
    if (scaled != np.floor(scaled)).any():
        raise DataError(
            f"column {column.name!r} has a value that is no multiple of 2^-{digits}, the unit of the exact sums. "
            f"Round the column, give it a larger unit, or raise digits (at most {MOST_DIGITS}) at every site."
        )
    return [int(value) for value in scaled.tolist()]


def _too_large(name: str) -> DataError:
    text = f"column {name!r} has a value of 2^{VALUE_BITS} or more, or an infinite one, which the exact sums cannot hold. "
    return DataError(f"{text}Divide the column by a constant at every site, or make such values null.")
