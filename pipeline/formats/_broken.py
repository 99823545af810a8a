"""What Polars raises for files that are damaged, and the rows of one, counted before it is cut into parts."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from pipeline.backend.engines import collect
from pipeline.errors import InputError

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""A panic of Polars is no Exception: a file that is damaged in a way that it did not expect."""


def count(scan: pl.LazyFrame, path: str, explain: Callable[[], str | None]) -> int:
    """Rows of a file. Raises InputError, with what can be said of it, for one that cannot be read."""
    try:
        return int(collect(scan.select(pl.len()), "cpu").item())
    except BROKEN as error:
        what = str(error).partition("\n")[0][:200]
        raise InputError(explain() or f"{path}: cannot be read whole ({what}). Is it damaged? Copy it again, or write it anew.") from error
