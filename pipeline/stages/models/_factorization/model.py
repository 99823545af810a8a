"""A published factorization: its files, and what it gives for a table of users or of pairs of a user and an item."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from pipeline.backend.devices import Backend
from pipeline.errors import InputError
from pipeline.kernels.factorization import Rows, popularity
from pipeline.kernels.top_items import pair_scores
from pipeline.stages.models._factorization.blocks import UserBlock
from pipeline.stages.models._factorization.lists import Wanted, best, nothing_seen, picked
from pipeline.stages.models._factorization.rows import numbers_of
from pipeline.tables.dtypes import dtype_of_text
from pipeline.tables.part import Part


def model_bytes(user_ids: pl.DataFrame, item_ids: pl.DataFrame, taken: Any, blocks: list[UserBlock], sides: Sequence[list[Any]]) -> bytes:
    """The npz file: ids and factors of the users and items that were learned, and which items each user took."""
    x, y = (np.concatenate(side) for side in sides)
    degrees = np.concatenate([popularity(block.rows) for block in blocks])
    known, offered = np.flatnonzero(degrees), np.flatnonzero(taken)
    place = np.cumsum(taken > 0) - 1
    arrays: dict[str, Any] = {
        **_ids("user", user_ids["id"].gather(known)),
        **_ids("item", item_ids["id"].gather(offered)),
        "users": x[known],
        "items": y[offered],
        "taken": taken[offered],
        "seen_bounds": np.append(0, np.cumsum(degrees[known])),
        "seen_items": place[np.concatenate([block.rows.columns for block in blocks])],
    }
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _ids(name: str, ids: pl.Series) -> dict[str, Any]:
    """Ids as arrays: numbers as they are, text as its bytes and where each begins."""
    if ids.dtype != pl.String:
        return {f"{name}_ids": ids.to_numpy()}
    text, lengths = "".join(ids.to_list()).encode(), ids.str.len_bytes().cast(pl.Int64).to_numpy()
    return {f"{name}_ids": np.frombuffer(text, np.uint8), f"{name}_bounds": np.append(0, np.cumsum(lengths))}


def _read_ids(arrays: Mapping[str, Any], name: str, dtype: pl.DataType) -> pl.DataFrame:
    ids = arrays[f"{name}_ids"]
    if dtype != pl.String:
        return pl.DataFrame({"id": pl.Series(ids, dtype=dtype)})
    text, bounds = ids.tobytes(), arrays[f"{name}_bounds"].tolist()
    return pl.DataFrame({"id": pl.Series([text[low:high].decode() for low, high in pairwise(bounds)], dtype=pl.String)})


class Recommender(NamedTuple):
    """The published arrays: ids in order, factors, how many took an item, and what each user took."""

    columns: tuple[str, str]
    wanted: Wanted
    user_ids: pl.DataFrame
    item_ids: pl.DataFrame
    users: Any
    items: Any
    taken: Any
    seen: Rows

    @staticmethod
    def of(description: Mapping[str, Any], content: bytes, backend: Backend) -> Recommender:
        """From the published bytes. Raises InputError where they are no such file."""
        names = cast("tuple[str, str]", tuple(description["features"]))
        types = [dtype_of_text(description["types"][name]) for name in names]
        wanted = Wanted("", int(description["top"]), bool(description["seen"]), backend)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = dict(file)
            users, items = (_read_ids(arrays, side, dtype or pl.String()) for side, dtype in zip(("user", "item"), types, strict=True))
            seen = Rows(arrays["seen_bounds"], arrays["seen_items"], arrays["seen_items"])
            return Recommender(names, wanted, users, items, arrays["users"], arrays["items"], arrays["taken"], seen)
        except (ValueError, KeyError, OSError) as error:
            raise InputError(f"{description['model']}: this is no model of matrix_factorization ({error}). Publish it again.") from error

    def answered(self, part: Part, kept: pl.DataFrame) -> Part:
        """`kept` and what the model says: of pairs their score, of users alone their lists, a row an item.

        A user or item that training did not have has null, and is counted.
        """
        users = numbers_of(self.user_ids, part.frame[self.columns[0]])
        if self.columns[1] in part.frame.columns:
            return self._pairs(users, part.frame[self.columns[1]], kept)
        return self._lists(users, kept)

    def _pairs(self, users: Any, of: pl.Series, kept: pl.DataFrame) -> Part:
        items = numbers_of(self.item_ids, of)
        known = (users >= 0) & (items >= 0)
        scores = np.full(len(users), np.nan)
        scores[known] = pair_scores(self.users[users[known]], self.items[items[known]])
        counts = {"unknown_users": int((users < 0).sum()), "unknown_items": int((items < 0).sum())}
        return Part(kept.with_columns(of, pl.Series("score", scores).fill_nan(None)), counts=counts)

    def _lists(self, users: Any, kept: pl.DataFrame) -> Part:
        at = np.flatnonzero(users >= 0)
        seen = nothing_seen(len(at)) if self.wanted.seen else picked(self.seen, users[at])
        places, scores = best(self.wanted, self.users[users[at]], self.items, seen, self.taken)
        row, place = np.nonzero(places >= 0)
        unknown = np.flatnonzero(users < 0)
        rows = np.concatenate([at[row], unknown])
        order = np.argsort(rows, kind="stable")
        nothing = np.full(len(unknown), -1)
        ranks, items = np.concatenate([place + 1, nothing])[order], np.concatenate([places[row, place], nothing])[order]
        found = np.concatenate([scores[row, place], np.full(len(unknown), np.nan)])[order]
        ids = self.item_ids["id"].gather(pl.Series(items).replace(-1, None))
        made = [ids.alias(self.columns[1]), pl.Series("rank", ranks, pl.Int32).replace(-1, None), pl.Series("score", found).fill_nan(None)]
        return Part(kept[rows[order]].hstack(made), counts={"unknown_users": len(unknown)})


def description_bytes(about: Mapping[str, Any]) -> bytes:
    """The JSON file."""
    return (json.dumps(about, indent=1, default=str) + "\n").encode()
