"""Sums by split, for metrics and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from pipeline.stages.models._training_rows import SPLITS
from pipeline.tables.part import Part

Sums = Mapping[str, tuple[int, float]]
"""By split ('' where there is none): rows, and a sum over them."""


def split_sums(part: Part, split: str | None, column: str, power: int = 2) -> Sums:
    """Rows and the sum of a column's powers; rows of no split that we know count for none."""
    label = pl.col(split) if split else pl.lit("")
    total = pl.col(column) ** power
    found = part.frame.group_by(label.alias("split")).agg(pl.len().alias("rows"), total.sum().alias("total"))
    sums = {name: (rows, value) for name, rows, value in found.iter_rows()}
    return {name: sums[name] for name in (SPLITS if split else ("",)) if name in sums}


def by_split(found: Sequence[Sums]) -> Sums:
    """The sums of several parts, in the order of the splits."""
    names = [name for name in ("", *SPLITS) if any(name in one for one in found)]
    return {name: (sum(one[name][0] for one in found if name in one), sum(one[name][1] for one in found if name in one)) for name in names}


def row_counts(sums: Sums) -> dict[str, int]:
    """Rows of each split, where there are some."""
    return {f"rows_{name}": rows for name, (rows, _) in sums.items() if name}
