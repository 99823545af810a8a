"""Keys of very many rows: a part that got all rows of one would keep a worker busy while the others wait, or not fit into it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import polars as pl

from pipeline.tables.part import Part

LOOKED_AT = 1 << 16  # rows of a part, at least, in which keys are counted
COMPARED = 8  # keys that are compared one by one, in a tenth of the time of a join
ROWS, HOT = "__rows__", "__hot__"
COPY = "__copy__"
"""The column, where rows were copied for hot keys of the other table, that says of each: NORMAL, HOME (where its hash puts it) or AWAY."""
NORMAL, HOME, AWAY = 0, 1, 2

Heavy = tuple[int, pl.DataFrame]


def heavy(part: Part, by: list[str], parts: int) -> Heavy:
    """A part's rows, and about how many of them each key has that may be hot among so many parts: counted in every n-th row of many."""
    step = max(1, part.frame.height // LOOKED_AT)
    counts = part.frame.select(by).gather_every(step).group_by(by).agg(pl.len().cast(pl.Int64).alias(ROWS) * step)
    return part.frame.height, counts.filter(pl.col(ROWS) * 8 * parts > part.frame.height)


def added(found: Sequence[Heavy]) -> Heavy:
    """The same of several parts."""
    counts = pl.concat([counts for _, counts in found])
    keys = [name for name in counts.columns if name != ROWS]
    return sum(rows for rows, _ in found), counts.group_by(keys).agg(pl.col(ROWS).sum())


def hot_keys(found: Heavy, rows: int, parts: int) -> pl.DataFrame:
    """The keys that have more rows than half of what a part would have of so many rows, and how many."""
    return found[1].filter(pl.col(ROWS) * 2 * parts > rows)


def divided(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Hot keys of two tables: one that is hot in both is of that with more rows of it. None where there is none."""
    on = [name for name in ours.columns if name != ROWS]
    other = pl.col(f"{ROWS}_right").fill_null(0)
    beside = [one.join(two, on=on, how="left", nulls_equal=True) for one, two in ((ours, theirs), (theirs, ours))]
    kept = [beside[0].filter(pl.col(ROWS) >= other).select(on), beside[1].filter(pl.col(ROWS) > other).select(on)]
    return (kept[0] if kept[0].height else None, kept[1] if kept[1].height else None)


def is_hot(frame: pl.DataFrame, hot: pl.DataFrame) -> pl.Series:
    """Of each row whether its key is hot; a missing key may be."""
    if hot.width == 1 and 0 < hot.height <= COMPARED:
        keys_of = frame[hot.columns[0]]
        return reduce(or_, (keys_of.eq_missing(hot.to_series()[place : place + 1]) for place in range(hot.height)))
    keys = hot.with_columns(pl.lit(True).alias(HOT))
    found = frame.select(hot.columns).join(keys, on=hot.columns, how="left", nulls_equal=True, maintain_order="left")
    return found[HOT].fill_null(False)


def of_hot_keys(rows: pl.LazyFrame, hot: pl.DataFrame) -> pl.LazyFrame:
    """The rows of hot keys, those apart whose key is missing: they have no partner."""
    if hot.width > 1:
        return rows.join(hot.lazy(), on=hot.columns, how="semi", maintain_order="left")
    (name,) = hot.columns  # a file's other columns are then read where there are such rows
    return rows.filter(pl.col(name).is_in(hot[name].drop_nulls().implode()))


def with_copies(part: Part, hot: pl.DataFrame, copies: Part) -> Part:
    """A part, whose rows lie by the hash of their keys, with those rows of hot keys that lie in others. COPY tells which are which."""
    hot_here = is_hot(part.frame, hot.drop_nulls())  # a row whose key is missing has no partner
    own, others = part.frame.filter(hot_here), part.frame.filter(~hot_here)
    away = copies.frame.join(own, on=hot.columns, how="anti", maintain_order="left")
    marked = [frame.with_columns(pl.lit(flag, dtype=pl.Int8).alias(COPY)) for frame, flag in ((others, NORMAL), (own, HOME), (away, AWAY))]
    return Part(pl.concat(marked))
