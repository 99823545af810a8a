"""Which rows may be among the first of their group, by the first column of the order alone: to sort few rows costs little."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import polars as pl

from pipeline.backend.threads import on_all_threads
from pipeline.tables.packed import all_digits, numbered

BOUND, FILLED = "bound of its group", "group has n values"
MANY_ROWS = 1 << 20  # from which compiled code saves more than it takes to load
PLACES = 2  # for the least values of all groups together, at most, for a row


def is_near(by: Sequence[str], column: str, n: int, *, descending: bool) -> pl.Expr:
    """Whether a row may be among the first `n` of its group by a column of numbers or times; on a CPU alone.

    True of all rows whose values tie with the last of these, and all of a group with fewer values. NaN is no value, and the greatest.
    """
    columns = [pl.col(name) for name in (*by, column)]
    return pl.map_batches(columns, partial(on_all_threads, partial(_near, n, descending)), return_dtype=pl.Boolean())


def _near(n: int, descending: bool, columns: Sequence[pl.Series]) -> pl.Series:
    *keys, values = columns
    found = _compiled(n, descending, keys, values) if len(values) >= MANY_ROWS else None
    return _joined(n, descending, keys, values) if found is None else found


def _compiled(n: int, descending: bool, keys: Sequence[pl.Series], values: pl.Series) -> pl.Series | None:
    """By a table of every group's first values; None where groups are not soon numbered, or are too many."""
    digits, plain = all_digits(keys), _plain(values, descending)
    groups = prod(own.room for own in digits) if digits else 0
    if digits is None or plain is None or groups * n > PLACES * len(values):
        return None
    from pipeline.kernels.compiled import top_rows

    numbers, (there, order) = numbered(keys, digits).to_numpy(), plain
    least, counts, found = np.empty((groups, n), order.dtype), np.zeros(groups, np.int64), np.empty(len(values), bool)
    top_rows.keep_least(numbers, order, there, least, counts)
    top_rows.near(numbers, order, there, least, counts, found)
    return pl.Series(found) | values.is_nan().fill_null(value=False) if descending and values.dtype.is_float() else pl.Series(found)


def _plain(values: pl.Series, descending: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Which values are there, and numbers of which the least come first; None of integers that 64 bits with a sign do not hold."""
    numbers = values.to_physical()
    if numbers.dtype in {pl.UInt64, pl.Int128, pl.UInt128}:
        return None
    if numbers.dtype.is_float():
        floats = numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return ~np.isnan(floats), -floats if descending else floats
    whole = numbers.cast(pl.Int64).fill_null(0).to_numpy()
    return numbers.is_not_null().to_numpy(), ~whole if descending else whole  # whose order is the other way round, also of the least


def _joined(n: int, descending: bool, keys: Sequence[pl.Series], values: pl.Series) -> pl.Series:
    """By a table of groups."""
    names = [str(number) for number in range(len(keys))]
    value = pl.col("value").fill_nan(None) if values.dtype.is_float() else pl.col("value")
    rows = pl.LazyFrame([*(key.alias(name) for name, key in zip(names, keys, strict=True)), values.alias("value")])
    last = value.top_k(n).min() if descending else value.bottom_k(n).max()
    bounds = rows.group_by(*names).agg(last.alias(BOUND), (value.count() >= n).alias(FILLED))
    within = pl.col("value") >= pl.col(BOUND) if descending else pl.col("value") <= pl.col(BOUND)
    found = rows.join(bounds, on=names, how="left", nulls_equal=True, maintain_order="left").select(near=~pl.col(FILLED) | within)
    return found.collect()["near"].fill_null(value=False)
