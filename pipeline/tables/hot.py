"""Keys of very many rows: a part that got all rows of one would keep a worker busy while the others wait, or not fit into it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.tables.part import Part

LOOKED_AT = 1 << 16  # rows of a part, at least, in which keys are counted
ROWS, HOT = "__rows__", "__hot__"
COPY = "__copy__"
"""The column of the other side of a join that tells rows of hot keys: each part has them."""

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


def hot_keys(found: Heavy, parts: int) -> pl.DataFrame | None:
    """The keys that have more rows than half of what a part would have; None where there is none."""
    rows, counts = found
    hot = counts.filter(pl.col(ROWS) * 2 * parts > rows).drop(ROWS)
    return hot if hot.height else None


def is_hot(frame: pl.DataFrame, hot: pl.DataFrame) -> pl.Series:
    """Of each row whether its key is hot; a missing key may be."""
    keys = hot.with_columns(pl.lit(True).alias(HOT))
    found = frame.select(hot.columns).join(keys, on=hot.columns, how="left", nulls_equal=True, maintain_order="left")
    return found[HOT].fill_null(False)


def of_hot_keys(part: Part, hot: pl.DataFrame) -> Part:
    """The rows of hot keys, those apart whose key is missing: they have no partner."""
    return Part(part.frame.join(hot, on=hot.columns, how="semi", maintain_order="left"))


def with_copies(part: Part, hot: pl.DataFrame, copies: Part) -> Part:
    """A part of the other side with all rows of hot keys in place of its own."""
    others = part.frame.join(hot, on=hot.columns, how="anti", maintain_order="left")
    return Part(pl.concat([others.with_columns(pl.lit(False).alias(COPY)), copies.frame.with_columns(pl.lit(True).alias(COPY))]))
