"""The pieces of an exchange: which parts belong together by their key ranges, and rows cut and joined by a hash of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from pipeline.errors import RunError
from pipeline.tables.hot import is_hot
from pipeline.tables.part import Part, concat_parts, take

MERGED = 4  # parts that come to one bucket where there are many, and buckets a thread at most
Interval = tuple[Any, Any]  # least and greatest key of a part


def are_disjoint(intervals: Sequence[Interval]) -> bool:
    """Whether no two intervals overlap."""
    ordered = sorted(intervals)
    return all(before[1] < after[0] for before, after in pairwise(ordered))


def overlap_groups(left: Sequence[Interval], right: Sequence[Interval]) -> list[tuple[list[int], list[int]]]:
    """Numbers of the intervals that overlap one another, directly or through others; a group with none on one side joins its neighbour."""
    tagged = sorted([(*bounds, 0, i) for i, bounds in enumerate(left)] + [(*bounds, 1, i) for i, bounds in enumerate(right)])
    groups: list[tuple[list[int], list[int]]] = []
    reach: Any = None
    for low, high, side, index in tagged:
        complete = bool(groups) and all(groups[-1])
        if not groups or (low > reach and complete):
            groups.append(([], []))
        groups[-1][side].append(index)
        reach = high if reach is None else max(reach, high)
    if len(groups) > 1 and not all(groups[-1]):
        last = groups.pop()
        groups[-1][0].extend(last[0])
        groups[-1][1].extend(last[1])
    return groups


def buckets(parts: int, threads: int) -> int:
    """Into how many parts an exchange of so many puts its rows: one a thread, and as many more as keep them within four times their size.

    Every part is cut once a bucket and every piece is a task, whose price has nothing to do with its rows: as many buckets as parts made
    an exchange of few parts a square of tasks. There are at most four a thread.
    """
    return max(min(parts, threads), min(-(-parts // MERGED), MERGED * threads))


def buckets_of(frame: pl.DataFrame, by: Sequence[str], parts: int, hot: pl.DataFrame | None = None) -> pl.Series:
    """Of each row the part that it goes to: equal keys to the same, rows of `hot` keys to one after the other."""
    bucket = frame.select(by).hash_rows(0) % parts
    if hot is None:
        return bucket
    in_turn = pl.int_range(frame.height, dtype=pl.UInt64, eager=True) % parts
    return in_turn.zip_with(is_hot(frame, hot), bucket)


def split_part(part: Part, by: list[str], parts: int, hot: pl.DataFrame | None = None) -> list[tuple[int, Part]]:
    """A part cut into `parts` by a hash of its keys, each piece with its rows counted: equal keys land in pieces of the same number.

    Rows of `hot` keys go to one piece after the other.
    """
    bucket = buckets_of(part.frame, by, parts, hot)
    pieces = []
    for index in range(parts):
        rows = (bucket == index).arg_true().to_numpy()
        arrays = {name: take(array, rows) for name, array in part.arrays.items()}
        pieces.append((len(rows), Part(part.frame[rows].rechunk(), arrays, part.counts if index == 0 else {})))
    if sum(rows for rows, _ in pieces) != part.frame.height:
        raise RunError(f"exchange by {by}: {part.frame.height} rows went in and {sum(rows for rows, _ in pieces)} came out")
    return pieces


def join_pieces(*pieces: tuple[int, Part]) -> Part:
    """The pieces of one number as one part. Raises RunError where rows went missing between the workers."""
    part = concat_parts([piece for _, piece in pieces])
    expected = sum(rows for rows, _ in pieces)
    if part.frame.height != expected:
        raise RunError(f"an exchange sent {expected} rows and {part.frame.height} arrived")
    return part
