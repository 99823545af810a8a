"""The rows of interactions as blocks of users, and of items, by number: all of a user's (an item's) pairs in one block.

Users and items are numbered in the order of their ids, and a block is a range of numbers. What is made of a block is made chunk by chunk,
whose edges follow from how many users (items) there are: so nothing depends on how the rows were divided, nor on how many blocks there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.kernels.factorization import Rows
from pipeline.stages.models._factorization.rows import SPLITS, Columns, distinct, merged, numbers_of
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table

_FEWEST_CHUNKS, _MOST_CHUNKS, _CHUNK = 16, 256, 4096


class Interactions(NamedTuple):
    """Rows by number: user, item and weight, the place of their split in SPLITS, and a number that orders their times; `[rows]` each."""

    users: Any
    items: Any
    weights: Any
    splits: Any
    times: Any


class Held(NamedTuple):
    """Pairs that were held out, by user, split and item: the user's number in the block, the item's, the split's, `int64[pairs]` each."""

    users: Any
    items: Any
    splits: Any


class UserBlock(NamedTuple):
    """The pairs of a block's users: those to learn from, those held out, and how many held out pairs were learned from too."""

    rows: Rows
    held: Held
    held_seen: int


def chunk_size(count: int) -> int:
    """Users (items) of a chunk, where there are so many: 16 chunks of few, 4,096 in one of many, 256 chunks at most."""
    return max(1, -(-count // _MOST_CHUNKS), min(_CHUNK, -(-count // _FEWEST_CHUNKS)))


def edges(count: int, blocks: int) -> list[int]:
    """Where blocks of whole chunks begin, and where the last ends."""
    size = chunk_size(count)
    chunks = -(-count // size)
    return [min(count, size * (chunks * block // blocks)) for block in range(blocks + 1)]


class Blocks(NamedTuple):
    """Futures: the ids of users and items in order (frames of one column `id`), and their blocks."""

    user_ids: Any
    item_ids: Any
    users: list[Any]
    items: list[Any]


def blocks_of(session: Session, columns: Columns, rows: Table) -> Blocks:
    """The blocks of a table, one a task that runs at once; its parts are cut once by user, and what came of them once by item."""
    name, count, submit = rows.stage, session.workers * session.threads, session.submit
    user_ids, item_ids = (rows.reduce(distinct, merged, column) for column in (columns.user, columns.item))
    cuts = [submit(cut_by_user, part, columns, user_ids, item_ids, count, stage=name) for part in rows.futures()]
    users = []
    for number in range(count):
        pieces = [submit(getitem, cut, number, stage=name) for cut in cuts]
        users.append(submit(user_block, columns, user_ids, (number, count), *pieces, stage=name))
    cuts = [submit(cut_by_item, block, user_ids, item_ids, (number, count), stage=name) for number, block in enumerate(users)]
    items = []
    for number in range(count):
        pieces = [submit(getitem, cut, number, stage=name) for cut in cuts]
        items.append(submit(item_block, item_ids, (number, count), *pieces, stage=name))
    return Blocks(user_ids, item_ids, users, items)


def cut_by_user(part: Part, columns: Columns, user_ids: pl.DataFrame, item_ids: pl.DataFrame, blocks: int) -> list[Interactions]:
    """The interactions of a part, those of each block of users."""
    frame, height = part.frame, part.frame.height
    users, items = numbers_of(user_ids, frame[columns.user]), numbers_of(item_ids, frame[columns.item])
    weights = frame[columns.weight].cast(pl.Float64).to_numpy() if columns.weight else np.ones(height)
    splits, times = np.zeros(height, np.int8), np.zeros(height, np.int8)
    if columns.split:
        splits = frame[columns.split].replace_strict({name: at for at, name in enumerate(SPLITS)}, return_dtype=pl.Int8).to_numpy()
    if columns.time:
        times = frame[columns.time].to_physical().to_numpy()
    whole = Interactions(users, items, weights, splits, times)
    return _cut(whole, users, edges(user_ids.height, blocks))


def _cut(whole: Any, by: Any, at: Sequence[int]) -> list[Any]:
    """A tuple of arrays as several, by which range a number is in."""
    order = np.argsort(by, kind="stable")
    bounds = np.searchsorted(by[order], at)
    return [type(whole)(*(array[order[low:high]] for array in whole)) for low, high in pairwise(bounds)]


def _joined(pieces: Sequence[Any]) -> Any:
    return type(pieces[0])(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))


def user_block(columns: Columns, user_ids: pl.DataFrame, block: tuple[int, int], *pieces: Interactions) -> UserBlock:
    """A block of users from what all parts have of it; duplicates of a pair in a split are added, in the order of their weights."""
    first, last = edges(user_ids.height, block[1])[block[0] : block[0] + 2]
    users, items, weights, splits, times = _joined(pieces)
    users = users - first
    if columns.holdout:
        splits = held_out(users, (weights, items, times), columns.holdout)
    order = np.lexsort((weights, items, users, splits))
    users, items, weights, splits = (array[order] for array in (users, items, weights, splits))
    new = np.append(True, (np.diff(users) != 0) | (np.diff(items) != 0) | (np.diff(splits) != 0))[: len(users)]
    starts = np.flatnonzero(new)
    sums = np.add.reduceat(weights, starts) if len(starts) else weights
    users, items, splits = (array[starts] for array in (users, items, splits))
    train = splits == 0
    bounds = np.searchsorted(users[train], np.arange(last - first + 1))
    rows = Rows(bounds, items[train], sums[train])
    width = int(items.max(initial=0)) + 1
    again = np.isin(users * width + items, (users * width + items)[train]) & ~train
    kept = ~train & (columns.seen | ~again)
    return UserBlock(rows, Held(users[kept], items[kept], splits[kept].astype(np.int64)), int(again.sum()))


def held_out(users: Any, order: tuple[Any, ...], most: int) -> Any:
    """Splits of the rows: `test` for the last so many of a user, who keeps all of them where there are no more; `order` goes up in time."""
    placed = np.lexsort((*order, users))
    counts = np.bincount(users)
    ends = np.cumsum(counts)
    from_end = ends[users[placed]] - np.arange(len(placed))
    splits = np.zeros(len(users), np.int8)
    splits[placed[(from_end <= most) & (counts[users[placed]] > most)]] = SPLITS.index("test")
    return splits


class Pairs(NamedTuple):
    """Pairs to learn from, by number: `[pairs]` each."""

    users: Any
    items: Any
    weights: Any


def cut_by_item(block: UserBlock, user_ids: pl.DataFrame, item_ids: pl.DataFrame, at: tuple[int, int]) -> list[Pairs]:
    """The pairs of a block of users, those of each block of items."""
    first, rows = edges(user_ids.height, at[1])[at[0]], block.rows
    users = first + np.repeat(np.arange(len(rows.bounds) - 1), np.diff(rows.bounds))
    return _cut(Pairs(users, rows.columns, rows.weights), rows.columns, edges(item_ids.height, at[1]))


def item_block(item_ids: pl.DataFrame, block: tuple[int, int], *pieces: Pairs) -> Rows:
    """A block of items, the users of each in order."""
    first, last = edges(item_ids.height, block[1])[block[0] : block[0] + 2]
    users, items, weights = _joined(pieces)
    order = np.lexsort((users, items))
    return Rows(np.searchsorted(items[order], np.arange(first, last + 1)), users[order], weights[order])
