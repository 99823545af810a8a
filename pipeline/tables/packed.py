"""The order of rows by several columns as one whole number a row: to sort by it takes a third of the time of a sort by all of them.

Values become numbers from 0 on, texts their places among those that there are, and the numbers of a row digits of one. Where texts hardly
repeat, or all does not fit into 62 bits, it is the row's place in the order, which takes an eighth more than the sort in its stead.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

MOST = 2**62
SAMPLE = 10_000
MANY = 0.98  # of a sample's texts that are different: then there are some 250,000 or more of them


def packed(names: Sequence[str]) -> pl.Expr:
    """A number a row, Int64, that orders rows as these columns do from the least up, nulls last; for a CPU's engine."""
    return pl.map_batches([pl.col(name) for name in names], places, return_dtype=pl.Int64())


def places(columns: Sequence[pl.Series]) -> pl.Series:
    """Those numbers, of whole columns."""
    digits, room = list[tuple[pl.Series, int]](), 1
    for column in columns:
        found = _numbers(column)
        room *= found[1] if found else MOST + 1
        if found is None or room > MOST:
            return _ranks(columns)
        digits.append(found)
    key, _ = digits[0]
    for numbers, width in digits[1:]:
        key = key * width + numbers
    return key


def _numbers(column: pl.Series) -> tuple[pl.Series, int] | None:
    """Whole numbers from 0 on in the order of the values, null's the last, and how many there may be; None of what is not soon numbered."""
    dtype = column.dtype
    if dtype == pl.String:
        some = column.gather_every(len(column) // SAMPLE + 1)
        if len(column) > SAMPLE and some.n_unique() > MANY * len(some):
            return None
        words = column.unique().drop_nulls().sort()
        return column.cast(pl.Enum(words)).to_physical().cast(pl.Int64).fill_null(len(words)), len(words) + 1
    if not (dtype.is_integer() or dtype.is_temporal() or dtype == pl.Boolean) or dtype in {pl.Int128, pl.UInt128}:
        return None
    numbers = column.cast(pl.Int8) if dtype == pl.Boolean else column.to_physical()
    least, most = numbers.min(), numbers.max()
    if not isinstance(least, int) or not isinstance(most, int):
        return pl.repeat(0, len(column), dtype=pl.Int64, eager=True), 1
    if most - least >= MOST:
        return None
    wide = numbers if numbers.dtype == pl.UInt64 else numbers.cast(pl.Int64)
    from_0 = (wide - pl.Series([least], dtype=wide.dtype)).cast(pl.Int64)
    return from_0.fill_null(most - least + 1), most - least + 2


def _ranks(columns: Sequence[pl.Series]) -> pl.Series:
    """The place of each row; rows that are equal have several, one after another."""
    names = [str(number) for number in range(len(columns))]
    frame = pl.DataFrame([column.alias(name) for name, column in zip(names, columns, strict=True)])
    return frame.with_row_index("row").sort(names, nulls_last=True)["row"].arg_sort().cast(pl.Int64)
