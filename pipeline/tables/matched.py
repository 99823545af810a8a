"""Which row of a table has the key of another's: by keys as numbers, each looked up in its place, or put in order and merged.

Where the numbers of the right's keys are little more than its rows, each has a place of its own in a list, and what a join by hash takes
seconds for is a look there. Of tables in the order of their keys, or in a few stretches that each are, a merge takes a tenth of a join by
hash; where the right one has millions of rows, and is in order, still half of it for a left one in any order: a hash table of so many is
read from everywhere. Of the joined rows nothing is copied but what comes to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import polars as pl

from pipeline.tables.packed import MOST, Digits, digits_of

LEAST_ROWS = 50_000  # below it a join takes milliseconds
FEW = 100  # rows a stretch that is in order has at least, on average
MANY_ROWS = 1 << 20  # of the right, whose hash table is beyond the caches
PLACES = 4  # that a list of places has at most for a row of the right
FEW_PLACES = 1 << 16  # or this many
NOWHERE = 2**32 - 1
LEFT, RIGHT, PLACE = "left", "right", "place"


@dataclass(frozen=True)
class KeyNumbers:
    """Keys of two tables as whole numbers from 0 on, below `room`: equal where the keys are. Int64, null where a key has no partner."""

    left: pl.Series
    right: pl.Series
    room: int

    @staticmethod
    def of(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str], most: int = MOST) -> KeyNumbers | None:
        """By these columns, of the same types in both; None where they are not soon numbered below `most`."""
        digits = _digits(right, names, most)
        return None if digits is None else KeyNumbers.by(digits, left, right, names)

    @staticmethod
    def by(digits: Sequence[Digits], left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str]) -> KeyNumbers:
        """By these columns, whose values become these digits."""
        return KeyNumbers(
            _numbers(digits, left, names).alias(LEFT), _numbers(digits, right, names).alias(RIGHT), prod(own.room for own in digits)
        )


def partners(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str]) -> pl.Series | None:
    """Of each left row the place of the right row with its key, null where there is none.

    None where a join by hash takes less, or a key comes twice on the right. Columns are of the same types in both: whole numbers, times,
    truth, or texts that repeat. A missing key has no partner.
    """
    if left.height < LEAST_ROWS or any(right.schema[name].is_nested() for name in names):
        return None
    near_order = _is_near_order(right[names[0]].head(LEAST_ROWS))
    if right.height >= MANY_ROWS and not near_order and any(right.schema[name] == pl.String for name in names):
        return None  # the texts that there are take as long as a join
    digits = _digits(right, names, MOST)
    if digits is None:
        return None
    if prod(own.room for own in digits) <= max(PLACES * right.height, FEW_PLACES):
        return _looked_up(KeyNumbers.by(digits, left, right, names))
    if not near_order or right.height < LEAST_ROWS:
        return None
    numbers = KeyNumbers.by(digits, left, right, names)
    if not _is_near_order(numbers.right) or (right.height < MANY_ROWS and not _is_near_order(numbers.left)):
        return None
    return _merged(numbers)


def is_one_to_one(places: pl.Series, height: int) -> bool:
    """Whether no row of the right, of this height, is the partner of two."""
    found = places.drop_nulls().to_numpy()
    seen = np.zeros(height, dtype=bool)
    seen[found] = True
    return int(np.count_nonzero(seen)) == len(found)


def _digits(right: pl.DataFrame, names: Sequence[str], most: int) -> list[Digits] | None:
    found, room = list[Digits](), 1
    for name in names:
        digits = digits_of(right[name])
        room *= digits.room if digits else most + 1
        if digits is None or room > most:
            return None
        found.append(digits)
    return found


def _numbers(digits: Sequence[Digits], table: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    numbers = digits[0].known(table[names[0]])
    for own, name in zip(digits[1:], names[1:], strict=True):
        numbers = numbers * own.room + own.known(table[name])
    return numbers


def _looked_up(numbers: KeyNumbers) -> pl.Series | None:
    """The partners, by a list of the place of each number that a key may have, and one for all that have none."""
    rows = np.arange(len(numbers.right), dtype=np.uint32)
    if (missing := numbers.right.null_count()) > 0:
        rows = rows[numbers.right.is_not_null().to_numpy()]
    places = np.full(numbers.room + 1, NOWHERE, dtype=np.uint32)
    places[numbers.right.drop_nulls().to_numpy()] = rows
    if int(np.count_nonzero(places != NOWHERE)) < len(numbers.right) - missing:
        return None
    found = pl.Series(places).gather(numbers.left.fill_null(numbers.room))
    there = found != NOWHERE
    return found if there.all() else pl.select(pl.when(there).then(found)).to_series()


def _merged(numbers: KeyNumbers) -> pl.Series | None:
    """The partners, by the order of the keys."""
    ours, order = ordered(numbers.left)
    theirs, places = ordered(numbers.right)
    known = theirs.drop_nulls()
    if bool((known.slice(1) <= known.head(-1)).any()):
        return None
    if places is None:
        places = pl.int_range(known.len(), eager=True)
    others = pl.DataFrame([known.set_sorted(), places.tail(known.len()).cast(pl.Int64).alias(PLACE)])
    missing = ours.null_count()
    asked = ours.slice(missing).set_sorted().to_frame()
    found = asked.join(others, left_on=LEFT, right_on=RIGHT, how="left", maintain_order="left")[PLACE]
    found = pl.concat([pl.repeat(None, missing, dtype=pl.Int64, eager=True), found])
    return found if order is None else scattered(found, order, len(ours))


def scattered(values: pl.Series, order: pl.Series, height: int) -> pl.Series:
    """Whole numbers (from 0 on, or null) of rows that were put in this order, as the rows were before; null of rows that are not there."""
    found = np.full(height, -1)
    found[order.to_numpy()] = values.fill_null(-1).to_numpy()
    whole = pl.Series(found)
    return pl.select(pl.when(whole >= 0).then(whole).otherwise(None)).to_series()


def ordered(numbers: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """The numbers in order, nulls first, and the place that each had; None where they were in order. Equal ones keep theirs."""
    if numbers.null_count() == 0 and numbers.is_sorted():
        return numbers, None
    frame = numbers.to_frame().with_row_index(PLACE).sort(numbers.name, nulls_last=False, maintain_order=True)
    return frame[numbers.name], frame[PLACE]


def _is_near_order(numbers: pl.Series) -> bool:
    """Whether stretches that are in order have many rows."""
    falls = int((numbers < numbers.shift(1)).sum())
    return falls * FEW <= len(numbers)
