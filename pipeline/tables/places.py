"""Which row of which file each row is, where a table is still as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from pipeline.tables.sources import Placed, Range
from pipeline.tables.table import Table

FILE, LINE = "file", "row"
AT = "__at__"


def placed(rows: Table) -> Table:
    """The table with the columns `file` and `row` (from 1), null where rows may have moved or their sources do not know."""
    ranges = [_ranges(sources) for sources in rows.origins] if rows.as_read else []
    if not any(ranges):
        return rows.map(_with_place, ())
    parts = [replace(rows, blocks=(block,), origins=()).map(_with_place, place) for block, place in zip(rows.blocks, ranges, strict=True)]
    return parts[0].concat(*parts[1:])


def _ranges(sources: Sequence[object]) -> tuple[Range, ...]:
    """The ranges of a part; none where one is not known, or no telling where it ends."""
    found: list[Range] = []
    for source in sources:
        if not isinstance(source, Placed):
            return ()
        found += source.places()
    return () if any(rows is None for _, _, rows in found[:-1]) else tuple(found)


def _with_place(rows: pl.LazyFrame, ranges: Sequence[Range]) -> pl.LazyFrame:
    if not ranges:
        return rows.with_columns(pl.lit(None, dtype=pl.String).alias(FILE), pl.lit(None, dtype=pl.Int64).alias(LINE))
    at, start = pl.col(AT).cast(pl.Int64), 0
    files, numbers = list[pl.Expr](), list[pl.Expr]()
    for path, first, count in ranges:
        within = at >= start if count is None else (at >= start) & (at < start + count)
        files.append(pl.when(within).then(pl.lit(path)).otherwise(None))
        numbers.append(pl.when(within).then(at - (start - first - 1)).otherwise(None))
        start += count or 0
    return rows.with_row_index(AT).with_columns(pl.coalesce(files).alias(FILE), pl.coalesce(numbers).alias(LINE)).drop(AT)
