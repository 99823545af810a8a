"""Which rows of a table have the key of another's: by keys as whole numbers, each looked up.

Where the numbers of the right's keys are little more than its rows, each has a place of its own in a list. Where rows are many they have
one in a table that is filled and probed by compiled code. Either takes a fifth to a tenth of a join by hash of whole rows: of the joined
rows nothing is copied but what comes to them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.threads import by_blocks
from pipeline.tables.key_rows import KeyRows, from_zero
from pipeline.tables.packed import MOST, Digits, all_digits, in_one
from pipeline.tables.part import Part

LEAST_ROWS = 50_000  # below it a join takes milliseconds
MANY_ROWS = 1 << 20  # of both tables together: what they save is more than it takes to load the compiled code
MORE = 4  # times as many rows of the right as of the left, from which on it is looked for in a table of these
PLACES = 4  # that a list of places has at most for a row of the right
FEW_PLACES = 1 << 16  # or this many
MOST_ROWS = 2**31 - 1
Ints = np.ndarray[Any, np.dtype[Any]]

_SHARED = dict[tuple[int, tuple[str, ...]], "Keyed | None"]()


@dataclass(frozen=True)
class KeyNumbers:
    """Keys of two tables as whole numbers from 0 on, below `room`: equal where the keys are. Int64, null where a key has no partner."""

    left: pl.Series
    right: pl.Series
    room: int

    @staticmethod
    def of(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str], most: int = MOST) -> KeyNumbers | None:
        """By these columns, of the same types in both; None where they are not soon numbered below `most`."""
        keyed = Keyed.of(right, names, most=most)
        return None if keyed is None else KeyNumbers(keyed.known(left), keyed.numbers, keyed.room)


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


@dataclass
class Keyed:
    """The right of a join by its keys, as whole numbers below `room`, null where a key is missing; what finds its rows is made when asked.

    `shared` by many lefts, which are not looked in themselves; `asked` are their rows so far, which together are many or not.
    """

    digits: Sequence[Digits]
    columns: Sequence[pl.Series]
    height: int
    shared: bool = False
    asked: int = 0

    @staticmethod
    def of(right: pl.DataFrame, names: Sequence[str], *, most: int = MOST, shared: bool = False) -> Keyed | None:
        """By these columns: whole numbers, times, truth, or texts that repeat; None of what is not soon numbered below `most`."""
        columns = [right[name] for name in names]
        digits = all_digits(columns, most)
        return None if digits is None else Keyed(digits, columns, right.height, shared)

    @property
    def room(self) -> int:
        """How many numbers there may be."""
        return prod(own.room for own in self.digits)

    @cached_property
    def numbers(self) -> pl.Series:
        """Those of the rows, Int64."""
        return self._numbers((own.known_of_its_own(column) for own, column in zip(self.digits, self.columns, strict=True)), self.height)

    def known(self, rows: pl.DataFrame) -> pl.Series:
        """Those of other rows, with the same columns; null of a value that is not among those here."""
        columns = (rows[column.name] for column in self.columns)
        return self._numbers((own.known(column) for own, column in zip(self.digits, columns, strict=True)), rows.height)

    def _numbers(self, columns: Iterable[pl.Series], height: int) -> pl.Series:
        if not self.digits:  # of no column every row has the same key
            return pl.repeat(0, height, dtype=pl.Int64, eager=True)
        return in_one(self.digits, columns)

    @cached_property
    def places(self) -> pl.Series | None:
        """The row of each number, Int32, -1 where there is none, and -1 as the last; None where a key comes twice."""
        places = np.full(self.room + 1, -1, dtype=np.int32)
        places[self.numbers.fill_null(self.room).to_numpy()] = np.arange(self.height, dtype=np.int32)
        places[-1] = -1
        return pl.Series(places) if int(np.count_nonzero(places >= 0)) == self.height - self.numbers.null_count() else None

    @cached_property
    def table(self) -> KeyRows:
        """The rows by their numbers."""
        return KeyRows.of(self.numbers)

    def partners(self, left: pl.DataFrame, *, every: bool = False) -> Partners | None:
        """Those of these rows, which have the keys by the same names and of the same types; None of few rows.

        A missing key has no partner. `every`: keys that come twice on the right tell even where no left row has them.
        """
        near = self.room <= max(PLACES * self.height, FEW_PLACES)
        self.asked = self.asked + left.height if self.shared else left.height
        many = self.asked + self.height >= MANY_ROWS
        if left.height < LEAST_ROWS or left.height + self.height > MOST_ROWS or not (near or many):
            return None
        numbers = self.known(left)
        few = many and not (every or self.shared) and MORE * left.height <= self.height
        if few and (found := _by_left(numbers, self.numbers)) is not None:
            return found
        if near and self.places is not None:
            return Partners(from_zero(self.places.gather(numbers.fill_null(self.room)).to_numpy()))
        return Partners(self.table.first(numbers), self.table.after if self.table.again else None) if many else None


def partners(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str], *, every: bool = False) -> Partners | None:
    """Those by these columns, as `Keyed` has them."""
    keyed = Keyed.of(right, names) if left.height >= LEAST_ROWS else None
    return None if keyed is None else keyed.partners(left, every=every)


def shared_keys(right: Part, names: tuple[str, ...]) -> Keyed | None:
    """The keys of a part that many others meet in this process: made once, and there as long as it is."""
    place = id(right), names
    if place not in _SHARED:
        _SHARED[place] = Keyed.of(right.frame, names, shared=True)
        weakref.finalize(right, _SHARED.pop, place, None)
    return _SHARED[place]


def have_partners(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str]) -> pl.Series | None:
    """Whether each left row has one; None where `partners` gives None.

    A right of many more rows is looked for in a table of the left's: it takes no memory, and each block of it one look on its own thread.
    """
    many = names and left.height and max(MANY_ROWS, MORE * left.height) <= right.height <= MOST_ROWS - left.height
    ours = Keyed.of(left, names) if many else None
    if ours is None:
        found = partners(left, right, names)
        return None if found is None else found.first.is_not_null()
    table, none, seen = ours.table, left.height, np.zeros(left.height + 1, np.bool_)

    def look(rows: slice) -> None:
        seen[table.first(ours.known(right[rows])).fill_null(none).to_numpy()] = True

    by_blocks(look, right.height)
    seen[none] = False
    return pl.Series(seen).gather(table.first(ours.numbers).fill_null(none))


def _by_left(ours: pl.Series, theirs: pl.Series) -> Partners | None:
    """The partners by a table of the left's numbers, where those of the right are looked up; None where keys come twice on both sides."""
    from pipeline.kernels.compiled import key_rows

    table, counts = KeyRows.of(ours), np.zeros(len(ours), np.int64)
    found = pl.concat(by_blocks(lambda rows: table.first(theirs[rows]), len(theirs))).fill_null(-1).to_numpy()
    key_rows.count(found, counts)
    repeat = bool((counts > 1).any())
    if repeat and table.again:
        return None
    ends = np.cumsum(counts) - counts
    rows, first = np.empty(int(counts.sum()), np.int32), np.full(len(ours) + 1, -1, np.int32)
    first[:-1][counts > 0] = ends[counts > 0]
    key_rows.put_together(found, ends, rows)
    first[first >= 0] = rows[first[first >= 0]]
    if table.again:  # of those with one key the first has what was found
        return Partners(from_zero(first[table.first(ours).fill_null(-1).to_numpy()]))
    return Partners(from_zero(first[:-1]), groups=(counts, rows) if repeat else None)


def scattered(values: pl.Series, order: pl.Series, height: int) -> pl.Series:
    """Whole numbers (from 0 on, or null) of rows that were put in this order, as the rows were before; null of rows that are not there."""
    found = np.full(height, -1)
    found[order.to_numpy()] = values.fill_null(-1).to_numpy()
    return from_zero(found)
