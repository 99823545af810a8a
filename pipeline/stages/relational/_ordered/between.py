"""Values between known ones: on the line from the one before to the one after, within a group of sorted rows."""

from __future__ import annotations

import polars as pl

from pipeline.stages.relational._ordered.groups import START


def around(value: str, place: str) -> list[pl.Expr]:
    """Columns for `line`: of each row the value and the place (Int64) of the nearest known one before and after it, itself included."""
    known = pl.col(value).is_not_null()
    found = []
    for part, expr in zip(("value", "place"), (pl.col(value), pl.when(known).then(pl.col(place)).otherwise(None)), strict=True):
        found += [
            expr.forward_fill().over(START).alias(f"__{part}_before:{value}__"),
            expr.backward_fill().over(START).alias(f"__{part}_after:{value}__"),
        ]
    return found


def line(value: str, place: str) -> pl.Expr:
    """The value on the line between the two, Float64, in proportion to the place; null before the first known one and after the last."""
    low, high = (pl.col(f"__value_{side}:{value}__").cast(pl.Float64) for side in ("before", "after"))
    first, last = (pl.col(f"__place_{side}:{value}__") for side in ("before", "after"))
    whole, far = (last - first).cast(pl.Float64), (pl.col(place) - first).cast(pl.Float64)
    share = pl.when(last > first).then(far / whole).otherwise(0.0)
    between = pl.when(low == high).then(low).otherwise(low * (1 - share) + high * share)
    return pl.when(last > first).then(between).otherwise(pl.when(last == first).then(low).otherwise(None))
