"""Rows that figures are of, where there are very many: one in so many, so that the page needs no more memory than the run."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

MOST = 1 << 21
AT = "__at__"


class Drawn(NamedTuple):
    """Rows, and one of how many they are."""

    rows: pl.LazyFrame
    step: int

    @property
    def said(self) -> str:
        """A sentence that says so, with a space before it; nothing where they are all there are."""
        return "" if self.step == 1 else f" Of one row in {self.step:,}; run.json has the metrics of all."


def drawn(rows: pl.LazyFrame) -> Drawn:
    """The rows, or of more than MOST every n-th, beginning with the first."""
    step = -(-int(rows.select(pl.len()).collect(engine="streaming").item()) // MOST)
    if step <= 1:
        return Drawn(rows, 1)
    return Drawn(rows.with_row_index(AT).filter(pl.col(AT) % step == 0).drop(AT), step)
