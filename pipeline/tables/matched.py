"""Which rows of a table have the key of another's: by keys as whole numbers, each looked up.

Where the numbers of the right's keys are little more than its rows, each has a place of its own in a list. Where rows are many they have
one in a table that is filled and probed by compiled code. Either takes a fifth to a tenth of a join by hash of whole rows: of the joined
rows nothing is copied but what comes to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.threads import by_blocks
from pipeline.tables.key_rows import KeyRows, from_zero
from pipeline.tables.packed import MOST, Digits, all_digits, in_one

LEAST_ROWS = 50_000  # below it a join takes milliseconds
MANY_ROWS = 1 << 20  # of both tables together: what they save is more than it takes to load the compiled code
MORE = 4  # times as many rows of the right as of the left, from which on it is looked for in a table of these
PLACES = 4  # that a list of places has at most for a row of the right
FEW_PLACES = 1 << 16  # or this many
MOST_ROWS = 2**31 - 1
Ints = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class KeyNumbers:
    """Keys of two tables as whole numbers from 0 on, below `room`: equal where the keys are. Int64, null where a key has no partner."""

    left: pl.Series
    right: pl.Series
    room: int

    @staticmethod
    def of(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str], most: int = MOST) -> KeyNumbers | None:
        """By these columns, of the same types in both; None where they are not soon numbered below `most`."""
        digits = all_digits([right[name] for name in names], most)
        return None if digits is None else KeyNumbers.by(digits, left, right, names)

    @staticmethod
    def by(digits: Sequence[Digits], left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str]) -> KeyNumbers:
        """By these columns, whose values become these digits, which were made of the right."""
        theirs = (own.known_of_its_own(right[name]) for own, name in zip(digits, names, strict=True))
        ours = (own.known(left[name]) for own, name in zip(digits, names, strict=True))
        return KeyNumbers(_numbers(digits, ours, left.height), _numbers(digits, theirs, right.height), prod(own.room for own in digits))


@dataclass(frozen=True)
class Partners:
    """Of each left row the `first` row of the right with its key, Int32, null where there is none; the others, if a key comes twice there.

    These by `after`, of each right row the next one with its key, -1 where it is the last; or by `groups`, of each left row how many
    partners it has, and all partners, left row by left row.
    """

    first: pl.Series
    after: Ints | None = None
    groups: tuple[Ints, Ints] | None = None

    @property
    def repeat(self) -> bool:
        """Whether a left row has two."""
        return self.after is not None or self.groups is not None

    def pairs(self, *, alone: bool) -> tuple[pl.Series | None, pl.Series]:
        """Rows of the left and the right with equal keys, in the order of the left, then of the right.

        Where `alone`, left rows without a partner are there with null. The first is None where it is each left row once.
        """
        if self.groups is not None:
            return _of_groups(*self.groups, alone=alone)
        if self.after is None:
            if alone or not self.first.null_count():
                return None, self.first
            return self.first.is_not_null().arg_true(), self.first.drop_nulls()
        from pipeline.kernels.compiled import key_rows

        found = self.first.fill_null(-1).to_numpy()
        count = key_rows.pairs(found, self.after) + (self.first.null_count() if alone else 0)
        ours, theirs = np.empty(count, np.int32), np.empty(count, np.int32)
        key_rows.put_pairs(found, self.after, alone, ours, theirs)
        return pl.Series(ours), from_zero(theirs)

    def is_one_to_one(self, height: int) -> bool:
        """Whether no row of the right, of this height, is the partner of two."""
        if self.repeat:
            return False
        found, seen = self.first.drop_nulls().to_numpy(), np.zeros(height, dtype=bool)
        seen[found] = True
        return int(np.count_nonzero(seen)) == len(found)


def _of_groups(counts: Ints, rows: Ints, *, alone: bool) -> tuple[pl.Series, pl.Series]:
    """The pairs of each left row, in its place, with its partners."""
    left = np.arange(len(counts), dtype=np.int32)
    if not alone:
        return pl.Series(np.repeat(left, counts)), pl.Series(rows)
    found = np.full(np.maximum(counts, 1).sum(), -1, np.int32)
    found[np.repeat(counts > 0, np.maximum(counts, 1))] = rows
    return pl.Series(np.repeat(left, np.maximum(counts, 1))), from_zero(found)


def partners(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str], *, every: bool = False) -> Partners | None:
    """The partners by these columns, of the same types in both: whole numbers, times, truth, or texts that repeat.

    None of few rows, and of what is not soon numbered. A missing key has no partner. `every`: keys that come twice on the right tell even
    where no left row has them.
    """
    if left.height < LEAST_ROWS or left.height + right.height > MOST_ROWS or any(right.schema[name].is_nested() for name in names):
        return None
    digits = all_digits([right[name] for name in names])
    if digits is None:
        return None
    near = prod(own.room for own in digits) <= max(PLACES * right.height, FEW_PLACES)
    many = left.height + right.height >= MANY_ROWS
    if not near and not many:
        return None
    numbers = KeyNumbers.by(digits, left, right, names)
    found = _listed(numbers) if near else None
    if found is not None:
        return Partners(found)
    return _probed(numbers, every=every) if many else None


def have_partners(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str]) -> pl.Series | None:
    """Whether each left row has one; None where `partners` gives None.

    A right of many more rows is looked for in a table of the left's: it takes no memory, and each block of it one look on its own thread.
    """
    many = names and left.height and max(MANY_ROWS, MORE * left.height) <= right.height <= MOST_ROWS - left.height
    digits = all_digits([left[name] for name in names]) if many else None
    if digits is None:
        found = partners(left, right, names)
        return None if found is None else found.first.is_not_null()
    ours = KeyRows.of(_numbers(digits, (own.known_of_its_own(left[name]) for own, name in zip(digits, names, strict=True)), left.height))
    none, seen = left.height, np.zeros(left.height + 1, np.bool_)

    def look(rows: slice) -> None:
        block = right[rows]
        theirs = _numbers(digits, (own.known(block[name]) for own, name in zip(digits, names, strict=True)), block.height)
        seen[ours.first(theirs).fill_null(none).to_numpy()] = True

    by_blocks(look, right.height)
    seen[none] = False
    return pl.Series(seen).gather(ours.first(pl.Series(ours.keys)).fill_null(none))


def _numbers(digits: Sequence[Digits], columns: Iterable[pl.Series], height: int) -> pl.Series:
    if not digits:  # of no column every row has the same key
        return pl.repeat(0, height, dtype=pl.Int64, eager=True)
    return in_one(digits, columns)


def _listed(numbers: KeyNumbers) -> pl.Series | None:
    """The partners, by a list with a place for each number that a key may have, and one for all others; None where a key comes twice."""
    places = np.full(numbers.room + 1, -1, dtype=np.int32)
    places[numbers.right.fill_null(numbers.room).to_numpy()] = np.arange(len(numbers.right), dtype=np.int32)
    places[-1] = -1
    if int(np.count_nonzero(places >= 0)) < len(numbers.right) - numbers.right.null_count():
        return None
    return from_zero(pl.Series(places).gather(numbers.left.fill_null(numbers.room)).to_numpy())


def _probed(numbers: KeyNumbers, *, every: bool) -> Partners:
    """The partners, by a table of the right's rows, or of the left's where these are fewer and no key comes twice."""
    if len(numbers.left) < len(numbers.right) and not every:
        ours = KeyRows.of(numbers.left)
        if not ours.again:
            return _grouped(pl.concat(by_blocks(lambda rows: ours.first(numbers.right[rows]), len(numbers.right))), len(numbers.left))
    rows = KeyRows.of(numbers.right)
    return Partners(rows.first(numbers.left), rows.after if rows.again else None)


def _grouped(found: pl.Series, height: int) -> Partners:
    """The partners by the left row, of this many, that each right row has, null where it has none."""
    from pipeline.kernels.compiled import key_rows

    lefts, counts = found.fill_null(-1).to_numpy(), np.zeros(height, np.int64)
    key_rows.count(lefts, counts)
    ends = np.cumsum(counts) - counts
    rows, starts = np.empty(int(counts.sum()), np.int32), ends.copy()
    key_rows.put_together(lefts, ends, rows)
    first = np.full(height, -1, np.int32)
    first[counts > 0] = rows[starts[counts > 0]]
    return Partners(from_zero(first), groups=(counts, rows) if (counts > 1).any() else None)


def scattered(values: pl.Series, order: pl.Series, height: int) -> pl.Series:
    """Whole numbers (from 0 on, or null) of rows that were put in this order, as the rows were before; null of rows that are not there."""
    found = np.full(height, -1)
    found[order.to_numpy()] = values.fill_null(-1).to_numpy()
    return from_zero(found)
