"""Rows of interactions as they come: which of them are used, and the numbers of their users and items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline.errors import DataError
from pipeline.tables.part import Part

MOST_WEIGHT = 1e100  # sums and products of such weights are finite
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Columns:
    """What the columns of a table of interactions are called; `holdout` is how many of a user's last ones are held out by `time`."""

    user: str
    item: str
    weight: str | None = None
    split: str | None = None
    time: str | None = None
    holdout: int = 0
    seen: bool = False

    @property
    def names(self) -> list[str]:
        """Those that there are."""
        return [name for name in (self.user, self.item, self.weight, self.split, self.time) if name]


def checked(part: Part, columns: Columns) -> Part:
    """The rows to use; the others are counted. Raises DataError for a weight or a split that cannot be."""
    frame = part.frame
    floats = [name for name in (columns.weight, columns.time) if name and frame[name].dtype.is_float()]
    complete = frame.with_columns(pl.col(floats).fill_nan(None)).drop_nulls()
    used = _weighted(complete, columns)
    if columns.split:
        odd = complete.filter(~pl.col(columns.split).is_in(SPLITS))[columns.split]
        if len(odd):
            raise DataError(f"{columns.split!r} has the value {odd[0]!r}; train, validation and test are known", key="split")
    counts = {"incomplete": frame.height - complete.height, "weightless": complete.height - used.height}
    return Part(used, counts={key: value for key, value in counts.items() if value})


def _weighted(complete: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows whose weight is above 0. Raises DataError for one below 0 or beyond MOST_WEIGHT."""
    if not columns.weight:
        return complete
    weight = pl.col(columns.weight).cast(pl.Float64)
    wrong = complete.filter((weight < 0) | (weight > MOST_WEIGHT))
    if wrong.height:
        user, item, value = (wrong[name][0] for name in (columns.user, columns.item, columns.weight))
        where, allowed = f"{columns.user} {user!r}, {columns.item} {item!r}", f"above 0 and no more than {MOST_WEIGHT:g}"
        raise DataError(f"{columns.weight!r} is {value} ({where}), and a weight is {allowed}. Filter such rows before.", key="weight")
    return complete.filter(weight > 0)


def distinct(part: Part, column: str) -> pl.DataFrame:
    """The ids of a part, in order."""
    return part.frame.select(pl.col(column).alias("id")).unique().sort("id")


def merged(ids: list[pl.DataFrame]) -> pl.DataFrame:
    """The ids of several parts, in order, each once."""
    return pl.concat(ids).unique().sort("id")


def numbers_of(ids: pl.DataFrame, wanted: pl.Series) -> Any:
    """The numbers of ids, `int64[n]`, -1 for one that is not there."""
    known = ids.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    found = wanted.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")
    return found["number"].fill_null(-1).to_numpy()
