"""Single rows, as those at the ends of parts: what they have, whether others are like them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import polars as pl

from pipeline.tables.part import frame_bytes, read_frame

_NUMBERS = count()
_LENGTHS = dict[pl.DataType, int]()


def one_of(frame: pl.DataFrame, name: str) -> pl.Expr:
    """The value of a frame of one row; one of Python's would lose nanoseconds.

    Of equal literals of two types Polars makes one, and drops a cast to the type that one has (docs/platform.md): those of a type have a
    length of their own.
    """
    one = frame[name]
    return pl.lit(pl.concat([one, one.clear(_LENGTHS.setdefault(one.dtype, next(_NUMBERS)))])).first()


def like(one: pl.DataFrame, names: Sequence[str]) -> pl.Expr:
    """Of rows, whether they are the same as one in these columns, missing values too."""
    return pl.all_horizontal(pl.lit(value=True), *(pl.col(name).eq_missing(one_of(one, name)) for name in names))


def alike(one: pl.DataFrame, two: pl.DataFrame, names: Sequence[str]) -> bool:
    """Whether a row is the same as another in these columns, missing ones too."""
    return all(one[name].eq_missing(two[name]).item() for name in names)


def copied(rows: pl.DataFrame) -> pl.DataFrame:
    """Some rows without the memory of the frame that they are of."""
    return read_frame(frame_bytes(rows))
