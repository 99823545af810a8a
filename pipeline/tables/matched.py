"""Which row of a table has the key of another's: by keys as numbers, put in order and merged.

Of tables in the order of their keys, or in a few stretches that each are, that takes a tenth of the time of a join by hash; where the right
one has millions of rows, and is in order, still half of it for a left one in any order: a hash table of so many is read from everywhere. Of
the joined rows nothing is copied but what comes to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.tables.packed import MOST, digits_of

LEAST_ROWS = 50_000  # below it a join takes milliseconds
FEW = 100  # rows a stretch that is in order has at least, on average
MANY_ROWS = 1 << 20  # of the right, whose hash table is beyond the caches
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
        first, second = pl.repeat(0, left.height, dtype=pl.Int64, eager=True), pl.repeat(0, right.height, dtype=pl.Int64, eager=True)
        room = 1
        for name in names:
            digits = digits_of(right[name])
            room *= digits.room if digits else most + 1
            if digits is None or room > most:
                return None
            first, second = (numbers * digits.room + digits.known(table[name]) for numbers, table in ((first, left), (second, right)))
        return KeyNumbers(first.alias(LEFT), second.alias(RIGHT), room)


@dataclass(frozen=True)
class Partners:
    """Of each left row the place of the right row with its key, null where there is none.

    `left_unique`: no key comes twice that has one; False only where a key of the left does come twice.
    """

    places: pl.Series
    left_unique: bool


def partners(left: pl.DataFrame, right: pl.DataFrame, names: Sequence[str]) -> Partners | None:
    """The partners by these columns; None where a join by hash takes less, or a key comes twice on the right.

    Columns are of the same types in both: whole numbers, times, truth, or texts that repeat. A missing key has no partner.
    """
    if min(left.height, right.height) < LEAST_ROWS or any(right.schema[name].is_nested() for name in names):
        return None
    if not _is_near_order(right[names[0]].head(LEAST_ROWS)):
        return None
    numbers = KeyNumbers.of(left, right, names)
    if numbers is None or not _is_near_order(numbers.right):
        return None
    if right.height < MANY_ROWS and not _is_near_order(numbers.left):
        return None
    ours, order = ordered(numbers.left)
    theirs, places = ordered(numbers.right)
    known = theirs.drop_nulls()
    if not _ascends(known):
        return None
    if places is None:
        places = pl.int_range(known.len(), eager=True)
    others = pl.DataFrame([known.set_sorted(), places.tail(known.len()).cast(pl.Int64).alias(PLACE)])
    missing = ours.null_count()
    asked = ours.slice(missing)
    found = asked.set_sorted().to_frame().join(others, left_on=LEFT, right_on=RIGHT, how="left", maintain_order="left")[PLACE]
    found = pl.concat([pl.repeat(None, missing, dtype=pl.Int64, eager=True), found])
    return Partners(found if order is None else scattered(found, order, left.height), _ascends(asked))


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


def _ascends(numbers: pl.Series) -> bool:
    """Whether each number is greater than the one before."""
    return not bool((numbers.slice(1) <= numbers.head(-1)).any())
