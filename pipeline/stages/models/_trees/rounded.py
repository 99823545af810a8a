"""Whole numbers that XGBoost's 32 bits round: a feature of such numbers can lose all that sets its rows apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from pipeline.stage import Context
from pipeline.tables.part import Part
from pipeline.tables.table import Table

EXACT = 2**24
"""Up to here a float of 32 bits holds every whole number."""

Rounded = dict[str, tuple[int, str]]
"""By feature: how many values are rounded, and one of them."""


def warn_of_rounding(columns: Sequence[str], rows: Table, context: Context) -> object:
    """A future of the warnings about those features of a table that is held."""
    if rows.is_beyond:
        found = [context.session.evaluate_into(block, partial(rounded_features, list(columns))) for block in rows.blocks]
    else:
        found = [context.session.submit(rounded_features, list(columns), part, stage=context.name) for part in rows.futures()]
    return context.session.submit(_warnings, found, stage=context.name)


def rounded_features(columns: Sequence[str], part: Part) -> Rounded:
    """The features with whole numbers that 32 bits do not hold."""
    found: Rounded = {}
    for name in columns:
        values = part.frame[name]
        whole = values.cast(pl.Float64)
        if values.dtype == pl.Boolean or not (whole.abs() > EXACT).any():
            continue
        lost = (whole.abs() > EXACT) & (whole.floor() == whole) & (whole.cast(pl.Float32).cast(pl.Float64) != whole)
        if count := int(lost.sum()):
            found[name] = (count, f"{values.filter(lost)[0]} becomes {int(whole.filter(lost).cast(pl.Float32)[0])}")
    return found


def _warnings(parts: Sequence[Rounded]) -> list[str]:
    remedy = "Subtract its least value or divide it by derive, encode it by categorify, or leave it out by exclude."
    lines = []
    for name in dict.fromkeys(name for found in parts for name in found):
        seen = [found[name] for found in parts if name in found]
        rows = sum(count for count, _ in seen)
        lines.append(f"feature {name!r} has whole numbers that XGBoost's 32 bits round: {seen[0][1]}, in {rows:,} rows so. {remedy}")
    return lines
