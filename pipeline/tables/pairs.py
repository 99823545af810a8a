"""Two tables part by part, for a join: equal keys stand in parts of the same number."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.tables.budget import SHARE
from pipeline.tables.exchange import overlap_groups
from pipeline.tables.foreseen import row_count
from pipeline.tables.hot import ROWS, Heavy, added, divided, heavy, hot_keys, of_hot_keys, with_copies
from pipeline.tables.part import Part
from pipeline.tables.table import Table

LEAST_ROW_BYTES = 8  # of a key alone


def together(left: Table, right: Table, by: Sequence[str]) -> tuple[Table, Table]:
    """Two tables with as many parts each, such that rows with equal keys stand in parts of the same number.

    Parts whose key ranges overlap are paired; else in one process all rows make one pair; over several workers both are exchanged, but
    for one that an exchange by these keys has just left.
    """
    if len(left.blocks) == len(right.blocks) == 1:
        return left, right
    first, second = left.disjoint(by), right.disjoint(by)
    if first and second and first[0] == second[0]:
        groups = overlap_groups(first[1], second[1])
        return left.merged([a for a, _ in groups]), right.merged([b for _, b in groups])
    if not (left.is_apart or right.is_apart):
        return left.merged([range(len(left.blocks))]), right.merged([range(len(right.blocks))])
    keys, parts = _places(left, right, by)
    return left.shuffled(keys, parts), right.shuffled(keys, parts)


def moves(left: Table, right: Table, by: Sequence[str]) -> bool:
    """Whether `together` would send rows of both tables between workers."""
    if not (left.is_apart or right.is_apart) or len(left.blocks) == len(right.blocks) == 1:
        return False
    first, second = left.disjoint(by), right.disjoint(by)
    return not (first and second and first[0] == second[0]) and not (left.is_spread(by) and right.is_spread(by))


def apart(left: Table, right: Table, by: Sequence[str], spread: Sequence[bool]) -> tuple[Table, Table, int]:
    """As `together`, and the number of keys that have so many rows of a table that these are spread over all parts.

    `spread` says of the left and the right whether their rows may be. The other table's rows of such keys then stand in every part; its
    column COPY tells them. Waits for keys to be counted.
    """
    keys, parts = _places(left, right, by)
    if parts == 1:
        return *together(left, right, by), 0
    may = (spread[0] and not left.is_spread(by), spread[1])
    left, right = (for_two(table) if twice else table for table, twice in ((left, may[0]), (right, may[1])))
    counts = [heavy_keys(table, by, parts) if counts else None for table, counts in zip((left, right), may, strict=True)]
    known = [found for found in counts if found is not None]
    if not known:
        return left.shuffled(keys, parts), right.shuffled(keys, parts), 0
    rows = sum(found[0] for found in known)
    none = known[0][1].clear()
    ours, theirs = divided(*(none if found is None else hot_keys(found, rows, parts) for found in counts))
    left, right = left if theirs is None else for_two(left), right if ours is None else for_two(right)
    first, second = left.shuffled(keys, parts, ours), right.shuffled(keys, parts, theirs)
    if theirs is not None:
        first = first.map_parts(with_copies, theirs, left.map(of_hot_keys, theirs).value())
    if ours is not None:
        second = second.map_parts(with_copies, ours, right.map(of_hot_keys, ours).value())
    return first, second, sum(hot.height for hot in (ours, theirs) if hot is not None)


def for_two(table: Table) -> Table:
    """The table, to be read twice. Beyond memory its keys alone are read the first time."""
    return table if table.is_beyond and table.cheap else table.hold()


def heavy_keys(table: Table, by: Sequence[str], parts: int) -> Heavy:
    """How many rows a table has, and how many of them each key that may be hot among so many parts. Waits for the keys to be counted."""
    found: Heavy = table.session.value(table.map(_keys, list(by)).reduce(heavy, added, list(by), parts))
    return found


def large_keys(table: Table, by: Sequence[str], row_bytes: int) -> pl.DataFrame:
    """The keys of which each has more rows than a task may hold, of so many bytes. Waits for the keys to be counted."""
    budget = table.session.budget
    assert budget is not None
    counts = heavy_keys(table, by, table.buckets())[1]
    most = budget.bytes // (SHARE * budget.at_once * row_bytes)
    return counts.filter(pl.col(ROWS) > most).select(by)


def _keys(rows: pl.LazyFrame, by: list[str]) -> pl.LazyFrame:
    return rows.select(by)


def small(table: Table, most: int) -> tuple[Table, bool]:
    """The table, to be used again, and whether it has so many bytes at most. Waits for them.

    Beyond memory its rows are counted first: where these are too many, nothing of it is laid down.
    """
    if table.is_beyond and table.cheap and table.size and row_count(table) * LEAST_ROW_BYTES > most:
        return table, False
    table = table.hold()
    return table, int(table.session.value(table.reduce(_bytes, sum))) <= most


def _bytes(part: Part) -> int:
    return part.nbytes


def _places(left: Table, right: Table, by: Sequence[str]) -> tuple[Sequence[str], int]:
    """The keys that both are exchanged by, and into how many parts."""
    parts = max(left.buckets(), right.buckets())
    placed = [table for table in (left, right) if table.is_spread(by) and len(table.blocks) >= parts]
    return (placed[0].spread, len(placed[0].blocks)) if placed else (tuple(by), parts)
