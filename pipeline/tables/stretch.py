"""A stretch of the rows that pass through a query, drawn at random while it runs, for whoever wants to see some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from threading import Lock

import polars as pl

from pipeline.tables.infinities import on_a_cpu

ROWS = 4096


class Stretch:
    """Up to `ROWS` rows one after another, of all that `see` was shown; any of its calls is as likely as its share of the rows."""

    def __init__(self, seed: str) -> None:
        self.rows: pl.DataFrame | None = None
        self._random, self._seen, self._lock = Random(seed), 0, Lock()

    def see(self, columns: Sequence[pl.Series]) -> pl.Series:
        """Look at some rows, and give their first column back as it is."""
        count = len(columns[0])
        with self._lock:
            self._seen += count
            if count and self._random.random() * self._seen < count:
                start = self._random.randrange(max(1, count - ROWS + 1))
                some = pl.int_range(start, min(start + ROWS, count), dtype=pl.get_index_type(), eager=True)
                self.rows = pl.DataFrame([column.gather(some) for column in columns])  # copied, so that all the others can go
        return columns[0]


def watched(rows: pl.LazyFrame, names: Sequence[str], seed: str, then: Callable[[pl.DataFrame], Mapping[str, int]]) -> pl.LazyFrame:
    """The same rows, of which a stretch of these columns is given to `then` when the query has run; what it counts is counted.

    Nothing is seen on a GPU, whose engine runs no function of ours, nor where nobody wants the first column.
    """
    tally = on_a_cpu()
    if tally is None or not names:
        return rows
    stretch = Stretch(seed)
    tally.when_run(partial(_looked_at, stretch, then))
    seen = pl.map_batches([pl.col(name) for name in names], stretch.see, return_dtype=rows.collect_schema()[names[0]], is_elementwise=True)
    return rows.with_columns(seen.alias(names[0]))


def _looked_at(stretch: Stretch, then: Callable[[pl.DataFrame], Mapping[str, int]]) -> Mapping[str, int]:
    return {} if stretch.rows is None else then(stretch.rows)
