"""Folds of a table's rows: by a hash of their keys, by whole groups, or by stretches of time. None depends on how rows are divided."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from pipeline.errors import DataError
from pipeline.stages._keys import FRACTION, STEP, with_fraction
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

SALT = 0x632BE59BD9B4E019  # so that folds of one of `split`'s splits, which have hashed the same keys, are as even as those of all rows
FOLD = "__fold__"  # the column that says a row's fold, from 0
VALUE, ROWS = "value", "rows"


def by_key(rows: Table, key: str, folds: int, seed: int) -> Table:
    """The rows with a fold by the hash of their key: folds of about equal size."""
    return with_fraction(rows, [key], STEP * (seed + 1) + SALT).map_parts(_of_fraction, folds)


def by_group(rows: Table, group: str, folds: int) -> Table:
    """The rows with a fold by their group, which is never torn apart: the largest groups first, each to the fold with the fewest rows."""
    return _by_counts(rows, group, _balanced, folds)


def by_time(rows: Table, time: str, stretches: int) -> Table:
    """The rows with the number of their stretch of time, as scikit-learn's TimeSeriesSplit has them; equal times share the earlier one."""
    return _by_counts(rows, time, _stretched, stretches)


def with_fold(schema: Schema) -> Schema:
    """The schema of rows with their folds."""
    return replace(schema, columns=pl.Schema({**schema.columns, FOLD: pl.Int64()}))


def _of_fraction(part: Part, folds: int) -> Part:
    return part.replaced(part.frame.with_columns((pl.col(FRACTION) * folds).floor().cast(pl.Int64).alias(FOLD)).drop(FRACTION))


def _by_counts(rows: Table, column: str, assign: Callable[[str, pl.DataFrame, int], Part], folds: int) -> Table:
    """The rows with what `assign` makes of the rows of each value."""
    rows = rows if rows.cheap else rows.hold()
    counts = rows.reduce(_counted, _added, column)
    return rows.map_parts(_joined, rows.session.submit(assign, column, counts, folds, stage=rows.stage), column)


def _counted(part: Part, column: str) -> pl.DataFrame:
    """How many rows of a part have each value."""
    return part.frame.group_by(pl.col(column).alias(VALUE)).agg(pl.len().cast(pl.Int64).alias(ROWS))


def _added(counts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(counts).group_by(VALUE).agg(pl.col(ROWS).sum())


def _whole(column: str, counts: pl.DataFrame) -> pl.DataFrame:
    """The counts in the order of the values. Raises DataError where some are missing."""
    if counts[VALUE].null_count():
        missing = counts.filter(pl.col(VALUE).is_null())[ROWS][0]
        raise DataError(f"{column!r} is missing in {missing:,} rows, which belong to no fold. Fill it in or filter them before.")
    return _added([counts]).sort(VALUE)


def _balanced(column: str, counts: pl.DataFrame, folds: int) -> Part:
    """A fold for every group. Raises DataError where there are fewer groups than folds."""
    counts = _whole(column, counts).sort(ROWS, descending=True, maintain_order=True)
    if counts.height < folds:
        raise DataError(f"{column!r} has {counts.height} values, too few for {folds} folds of whole groups. Ask for fewer folds.")
    filled, found = [(0, fold) for fold in range(folds)], []
    for rows in counts[ROWS]:
        size, fold = heapq.heappop(filled)
        found.append(fold)
        heapq.heappush(filled, (size + rows, fold))
    return Part(counts.select(VALUE, pl.Series(FOLD, found, pl.Int64)))


def _stretched(column: str, counts: pl.DataFrame, stretches: int) -> Part:
    """A stretch for every time. Raises DataError where one has no rows."""
    counts = _whole(column, counts)
    rows = int(counts[ROWS].sum())
    size = rows // stretches
    first = rows - size * (stretches - 1)  # the earliest stretch takes what is left over
    before = pl.col(ROWS).cum_sum() - pl.col(ROWS)
    stretch = pl.when(before < first).then(0).otherwise((before - first) // max(size, 1) + 1)
    found = counts.select(VALUE, stretch.cast(pl.Int64).alias(FOLD))
    if size == 0 or found[FOLD].n_unique() < stretches:
        raise DataError(f"{column!r} has too few times for {stretches} stretches, each with rows of its own. Ask for fewer folds.")
    return Part(found)


def _joined(part: Part, found: Part, column: str) -> Part:
    """A part's rows with their folds."""
    folds = part.frame.select(pl.col(column).alias(VALUE)).join(found.frame, on=VALUE, how="left", maintain_order="left")
    return part.replaced(part.frame.with_columns(folds[FOLD]))
