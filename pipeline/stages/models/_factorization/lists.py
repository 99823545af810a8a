"""What learned factors give: lists of recommendations, how good they are beside the most popular items, and tables of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pipeline.backend.arrays import to_device
from pipeline.backend.devices import Backend
from pipeline.errors import DataError
from pipeline.kernels.factorization import Rows, popularity
from pipeline.kernels.ranking_measures import MEASURES, hits, ranking_measures
from pipeline.kernels.top_items import top_items
from pipeline.stages.models._factorization.blocks import Held, UserBlock, edges
from pipeline.stages.models._factorization.rows import SPLITS
from pipeline.tables.part import Part
from pipeline.tables.rounds import go_on

OF_ROUND: dict[str, pl.DataType] = {"round": pl.Int64(), "split": pl.String(), "metric": pl.String(), "value": pl.Float64()}
_AT_ONCE = 4096  # users between two looks whether the run still wants them


@dataclass(frozen=True)
class Wanted:
    """How long the lists are, whether items that a user took before may be in them, and where the arrays are multiplied."""

    stage: str
    top: int
    seen: bool
    backend: Backend


class Lists(NamedTuple):
    """Of the users of a block that have pairs to learn from: their numbers in the block `[n]`, and the places and scores of their lists."""

    users: Any
    places: Any
    scores: Any

    def of(self, users: Any) -> Lists:
        """The lists of some of these users, each of which has one."""
        at = np.searchsorted(self.users, users)
        return Lists(users, self.places[at], self.scores[at])


class Measured(NamedTuple):
    """The measures of a block's users by split: of the model's lists and of the most popular items', `float64[users, 4]` each."""

    model: dict[str, Any]
    popular: dict[str, Any]


def counts_of_items(blocks: list[Rows]) -> Any:
    """How many users each item has in training, `int64[items]`."""
    return np.concatenate([popularity(block) for block in blocks])


def best(wanted: Wanted, users: Any, items: Any, seen: Rows, taken: Any) -> tuple[Any, Any]:
    """Places and scores of the lists of some users; `seen` is left out, and so is an item that nobody took (`taken` says how many did)."""
    backend = wanted.backend
    moved = Rows(seen.bounds, to_device(seen.columns, backend), seen.weights)
    return top_items(to_device(users, backend), to_device(items, backend), moved, to_device(taken > 0, backend), wanted.top)


def nothing_seen(users: int) -> Rows:
    """No pairs of so many users."""
    return Rows(np.zeros(users + 1, np.int64), np.empty(0, np.int64), np.empty(0))


def picked(rows: Rows, users: Any) -> Rows:
    """The rows of some users."""
    lengths = popularity(rows)[users]
    bounds = np.append(0, np.cumsum(lengths))
    at = np.repeat(rows.bounds[users] - bounds[:-1], lengths) + np.arange(bounds[-1])
    return Rows(bounds, rows.columns[at], rows.weights[at])


def listed(wanted: Wanted, block: UserBlock, users: Any, items: list[Any], taken: Any) -> Lists:
    """The lists of a block of users from their factors and those of all items."""
    known, factors = np.flatnonzero(popularity(block.rows)), np.concatenate(items)
    places, scores = np.full((len(known), wanted.top), -1), np.full((len(known), wanted.top), np.nan)
    for first in range(0, len(known), _AT_ONCE):
        go_on(wanted.stage)
        some = known[first : first + _AT_ONCE]
        seen = nothing_seen(len(some)) if wanted.seen else picked(block.rows, some)
        places[first : first + _AT_ONCE], scores[first : first + _AT_ONCE] = best(wanted, users[some], factors, seen, taken)
    return Lists(known, places, scores)


def measured(wanted: Wanted, block: UserBlock, lists: Lists, taken: Any) -> Measured:
    """How good a block's lists are, and what the most popular items would be to the same users.

    Of users who have pairs to learn from and pairs held out; what was held out counts whether or not the model knows the item.
    """
    found = Measured({}, {})
    for number, split in enumerate(SPLITS):
        held, counts = _of_split(block.held, number, len(taken))
        users = np.intersect1d(np.flatnonzero(counts), lists.users)
        if not len(users):
            continue
        seen = nothing_seen(len(users)) if wanted.seen else picked(block.rows, users)
        popular, _ = best(wanted, np.ones((len(users), 1)), taken[:, None].astype(np.float64), seen, taken)
        for which, places in ((found.model, lists.of(users).places), (found.popular, popular)):
            which[split] = ranking_measures(hits(users, places, held, len(taken)), counts[users])
    return found


def _of_split(held: Held, split: int, n_items: int) -> tuple[Any, Any]:
    """What is held out in a split, as ascending user * n_items + item, and how much each user of the block has of it."""
    inside = held.splits == split
    return held.users[inside] * n_items + held.items[inside], np.bincount(held.users[inside])


def metrics(top: int, *blocks: Measured) -> dict[str, dict[str, float | int]]:
    """The means over all users by split, and of the most popular items' lists."""
    found = dict[str, dict[str, float | int]]()
    for split in SPLITS:
        for of, name in (("model", split), ("popular", f"{split}, most popular")):
            pieces = [getattr(block, of)[split] for block in blocks if split in getattr(block, of)]
            if pieces:
                users = np.concatenate(pieces)
                means = {f"{measure}_at_{top}": float(value) for measure, value in zip(MEASURES, users.mean(axis=0), strict=True)}
                found[name] = {**means, "users": len(users)}
    return found


def list_part(columns: tuple[str, str], block: tuple[int, int], lists: Lists, user_ids: pl.DataFrame, item_ids: pl.DataFrame) -> Part:
    """A row a recommendation: user, item, rank and score, by user and rank; `columns` are what user and item are called."""
    first = edges(user_ids.height, block[1])[block[0]]
    user, place = np.nonzero(lists.places >= 0)
    made = {
        columns[0]: user_ids["id"].gather(first + lists.users[user]),
        columns[1]: item_ids["id"].gather(lists.places[user, place]),
        "rank": pl.Series(place + 1, dtype=pl.Int32),
        "score": pl.Series(lists.scores[user, place]),
    }
    return Part(pl.DataFrame(made))


def item_part(item: str, item_ids: pl.DataFrame, taken: Any, *lists: Lists) -> Part:
    """A row an item: how many users took it in training, and in how many lists it is."""
    recommended = np.zeros(len(taken), np.int64)
    for some in lists:
        recommended += np.bincount(some.places[some.places >= 0], minlength=len(taken))
    return Part(pl.DataFrame({item: item_ids["id"], "interactions": pl.Series(taken), "recommended": pl.Series(recommended)}))


def history(*losses: float) -> Part:
    """A row a round: its loss, as other models tell of theirs."""
    rows = [(number, SPLITS[0], "loss", loss) for number, loss in enumerate(losses, 1)]
    return Part(pl.DataFrame(rows, schema=OF_ROUND, orient="row"))


def tally(taken: Any, *blocks: UserBlock) -> dict[str, int]:
    """What was learned from, and what was not. Raises DataError where nothing was."""
    degrees = np.concatenate([popularity(block.rows) for block in blocks])
    if not degrees.any():
        raise DataError("there is no interaction to learn from. Is the split column right, and some weight above 0?")
    return {
        "users": int((degrees > 0).sum()),
        "items": int((taken > 0).sum()),
        "interactions": int(degrees.sum()),
        "held_out": sum(len(block.held.items) for block in blocks),
        "held_out_again": sum(block.held_seen for block in blocks),
        "cold_users": int((degrees == 0).sum()),
        "cold_items": int((taken == 0).sum()),
    }
