"""Rows in order: where keys become whole numbers, by one number a row, which takes a fraction of the time of a sort by several columns.

Rows that are equal in what fits into the number are then put in order among themselves, by all that is left. That is all there is to do
where the keys tell rows apart, however many columns are to order those that tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from pipeline.backend.threads import on_all_threads
from pipeline.tables.infinities import on_a_cpu
from pipeline.tables.names import Order
from pipeline.tables.packed import MOST, Digits, digits_of, numbered

MANY = 10_000  # rows from which on numbers pay
NUMBER, PLACE = "__number__", "__place__"


def put_in_order(rows: pl.LazyFrame, order: Order, ties: Sequence[str] = ()) -> pl.LazyFrame:
    """The rows in the order, nulls last; those that tie by further columns, and then as they were."""
    if on_a_cpu() is None:
        return order.then(ties).sort(rows)
    return rows.map_batches(partial(on_all_threads, sorted_frame, order, tuple(ties)), projection_pushdown=False, slice_pushdown=False)


def sorted_frame(order: Order, ties: Sequence[str], frame: pl.DataFrame) -> pl.DataFrame:
    """The same of a frame."""
    whole = order.then(ties)
    pays = frame.height >= MANY and (len(whole) > 1 or frame.schema[whole.names[0]] == pl.String)
    digits = _digits(frame, whole, len(order)) if pays else []
    if not digits:
        return whole.sort(frame.lazy()).collect()
    numbers = numbered([frame[name] for name in whole.names[: len(digits)]], digits, whole.descending)
    places = _places(numbers, frame, Order(whole[len(digits) :]))
    return frame if places is None else frame.select(pl.all().gather(places))


def _digits(frame: pl.DataFrame, order: Order, wanted: int) -> list[Digits]:
    """Those of as many of the first columns as fit into a number: the `wanted` ones, and more where these cannot tell the rows apart."""
    found, room = list[Digits](), 1
    for name in order.names:
        if len(found) >= wanted and room >= frame.height:
            break
        digits = digits_of(frame[name])
        if digits is None or (room := room * digits.room) > MOST:
            break
        found.append(digits)
    return found


def _places(numbers: pl.Series, frame: pl.DataFrame, others: Order) -> pl.Series | None:
    """Which row of the frame comes first, second, ...: by the numbers, then by the other columns; None where all stay where they are."""
    rows = pl.int_range(len(numbers), dtype=pl.UInt32 if len(numbers) < 2**32 else pl.UInt64, eager=True)
    if numbers.is_sorted():
        places = None
    else:
        numbers, places = pl.DataFrame({NUMBER: numbers, PLACE: rows}).sort(NUMBER, maintain_order=True)
    again = numbers == numbers.shift(1) if others else pl.Series(dtype=pl.Boolean)
    if not again.any():
        return places
    places = rows if places is None else places
    at = (again | again.shift(-1, fill_value=False)).arg_true()
    tied = places.gather(at)
    those = frame.select(pl.col(dict.fromkeys(others.names)).gather(tied)).with_columns(numbers.gather(at).alias(NUMBER), tied.alias(PLACE))
    ordered = Order([NUMBER, *others]).sort(those.lazy()).collect()
    return places.scatter(at, ordered[PLACE])
