"""Rows that figures are of, where there are very many: one in so many, so that the page needs no more memory than the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

MOST = 1 << 20
AT = "__at__"


class Drawn(NamedTuple):
    """Rows, and one of how many they are."""

    rows: pl.LazyFrame
    step: int

    @property
    def said(self) -> str:
        """A sentence that says so, with a space before it; nothing where they are all there are."""
        return "" if self.step == 1 else f" Of one row in {self.step:,}; run.json has the metrics of all."


def drawn(rows: pl.LazyFrame, columns: Iterable[str] | None = None) -> Drawn:
    """The rows, some of their columns alone, or of more than MOST every n-th, beginning with the first: in memory then."""
    rows = rows if columns is None else rows.select(columns)
    step = -(-int(rows.select(pl.len()).collect(engine="streaming").item()) // MOST)
    if step <= 1:
        return Drawn(rows, 1)
    some = rows.with_row_index(AT).filter(pl.col(AT) % step == 0).drop(AT)
    return Drawn(some.collect(engine="streaming").lazy(), step)  # any other engine would hold all of them
