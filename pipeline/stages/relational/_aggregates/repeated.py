"""Whether the rows of a part share keys: where hardly any do, what parts add up before they are exchanged is as much as the rows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.tables.table import Table

LOOKED_AT = 10_000  # rows of each part
HARDLY = 0.9  # keys a row
LARGE = 1 << 21  # rows, of which it pays to know more before they are grouped


def is_large(rows: Table) -> bool:
    """Whether they are known to be so many."""
    return rows.size is not None and rows.size.rows >= LARGE


def hardly_repeated(rows: Table, by: Sequence[str]) -> bool:
    """Of a table that is cheap to read, by the first rows of its parts: whether nearly each has a key of its own. Waits for them."""
    if not rows.cheap:
        return False
    found = rows.session.value(rows.map(_keys, list(by)).value()).frame
    return bool(found["keys"].sum() > HARDLY * found["rows"].sum())


def _keys(rows: pl.LazyFrame, by: list[str]) -> pl.LazyFrame:
    first = rows.select(by).head(LOOKED_AT)
    return first.select(pl.len().alias("rows"), pl.struct(by).n_unique().alias("keys"))
