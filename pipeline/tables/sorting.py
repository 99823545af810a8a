"""Rows in order: where keys become whole numbers, by one number a row, which takes a fraction of the time of a sort by several columns.

Rows that are equal in what fits into the number are then put in order among themselves, by all that is left. That is all there is to do
where the keys tell rows apart, however many columns are to order those that tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.threads import by_blocks, may_wait, on_all_threads
from pipeline.tables.infinities import on_a_cpu
from pipeline.tables.names import Order
from pipeline.tables.packed import MOST, Digits, digits_of, numbered

MANY = 10_000  # rows from which on numbers pay
THREADS, SAMPLED = 3, 1_000  # two threads sort twice what one sorts once
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
    keys = _keys(frame, whole, len(order)) if pays else []
    if not keys:
        return whole.sort(frame.lazy()).collect()
    columns, digits = zip(*keys, strict=True)
    places = _places(numbered(columns, digits, whole.descending), frame, Order(whole[len(keys) :]))
    return frame if places is None else gathered(frame, places)


def _keys(frame: pl.DataFrame, order: Order, wanted: int) -> list[tuple[pl.Series, Digits]]:
    """As many of the first columns as fit into a number, with their digits: the `wanted` ones, more where these do not tell rows apart."""
    found, room = list[tuple[pl.Series, Digits]](), 1
    for name in order.names:
        if len(found) >= wanted and room >= frame.height:
            break
        column = frame[name].rechunk()
        digits = None if column.dtype == pl.String and _hardly_repeats(column) else digits_of(column)
        if digits is None or (room := room * digits.room) > MOST:
            break
        found.append((column, digits))
    return found


def _hardly_repeats(texts: pl.Series) -> bool:
    """Whether half of a sample's texts stand there once: there are more than ten thousand, and to number them takes as long as to sort."""
    some = texts.gather_every(len(texts) // MANY + 1)
    return int(some.is_unique().sum()) * 2 > len(some)


def _places(numbers: pl.Series, frame: pl.DataFrame, others: Order) -> pl.Series | None:
    """Which row of the frame comes first, second, ...: by the numbers, then by the other columns; None where all stay where they are."""
    numbers, places = ordered(numbers)
    again = numbers == numbers.shift(1) if others else pl.Series(dtype=pl.Boolean)
    if not again.any():
        return places
    if places is None:
        places = pl.int_range(len(numbers), dtype=pl.UInt32 if len(numbers) < 2**32 else pl.UInt64, eager=True)
    at = (again | again.shift(-1, fill_value=False)).arg_true()
    tied = places.gather(at)
    those = frame.select(pl.col(dict.fromkeys(others.names)).gather(tied)).with_columns(numbers.gather(at).alias(NUMBER), tied.alias(PLACE))
    return places.scatter(at, Order([NUMBER, *others]).sort(those.lazy()).collect()[PLACE])


def gathered(frame: pl.DataFrame, places: pl.Series) -> pl.DataFrame:
    """The rows at these places, column by column: one of many pieces takes four times as long, all in one piece take their memory again."""
    columns = frame.get_columns()
    with ThreadPoolExecutor(min(pl.thread_pool_size(), len(columns)) if may_wait() else 1) as pool:
        return pl.DataFrame(list(pool.map(lambda column: column.rechunk().gather(places), columns)))


def put_up(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The keys, all different, from the least up; where they lay there is something else after. NumPy sorts eight of them at a time.

    Each thread sorts some of them, and then what lies between two values of all.
    """
    threads = pl.thread_pool_size() if may_wait() else 1
    if threads < THREADS or len(keys) < MANY * threads:
        keys.sort()
        return keys
    runs = np.array_split(keys, threads)
    found = np.empty_like(keys)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.ndarray.sort, runs))
        some = np.sort(np.concatenate([run[:: max(1, len(run) // SAMPLED)] for run in runs]))
        values = some[[len(some) * number // threads for number in range(1, threads)]]
        edges = np.array([[0, *np.searchsorted(run, values), len(run)] for run in runs])
        starts = edges.sum(axis=0)

        def put(number: int) -> None:
            """Sort what lies between two of the values, of all runs."""
            between = [run[edge[number] : edge[number + 1]] for run, edge in zip(runs, edges, strict=True)]
            found[starts[number] : starts[number + 1]] = np.concatenate(between)
            found[starts[number] : starts[number + 1]].sort()

        list(pool.map(put, range(threads)))
    return found


def ordered(numbers: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """Numbers, Int64 from -1 on, in order, and the place that each had: None where they were in order. Equal ones keep theirs.

    They are sorted with their places in their last bits, which takes half of a sort by two columns; what the numbers lose of their own last
    ones for it is put in order after.
    """
    if numbers.is_sorted():
        return numbers.set_sorted(), None
    given, count = numbers.to_numpy(), len(numbers)
    bits = (count - 1).bit_length()
    lost = max(0, (int(given.max()) + 1).bit_length() + bits - 64)
    keys, found, places = np.empty(count, np.uint64), np.empty(count, np.int64), np.empty(count, np.uint32 if bits <= 32 else np.uint64)

    def put_together(rows: slice) -> None:
        block = (given[rows] + 1).view(np.uint64) >> lost << bits
        keys[rows] = block | np.arange(rows.start, rows.start + len(block), dtype=np.uint64)

    def take_apart(rows: slice) -> None:
        places[rows] = in_order[rows] & np.uint64((1 << bits) - 1)
        found[rows] = given[places[rows]] if lost else (in_order[rows] >> bits).view(np.int64) - 1

    def mark_tied(rows: slice) -> None:
        some = in_order[max(0, rows.start - 1) : rows.stop] >> bits
        tied[max(1, rows.start) : rows.stop] = some[1:] == some[:-1]  # each with the one before it

    by_blocks(put_together, count)
    in_order = put_up(keys)
    by_blocks(take_apart, count)
    if lost and not pl.Series(found).is_sorted():
        tied = np.zeros(count, np.bool_)
        by_blocks(mark_tied, count)
        at = np.flatnonzero(tied | np.append(tied[1:], False))
        found[at], places[at] = pl.DataFrame({NUMBER: found[at], PLACE: places[at]}).sort(NUMBER, maintain_order=True)
    return pl.Series(found).set_sorted(), pl.Series(places)
