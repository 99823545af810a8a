"""Values between known ones: on the line from the one before to the one after, within a group of sorted rows."""

from __future__ import annotations

import polars as pl

from pipeline.stages.relational._ordered.groups import START

SIDES = ("before", "after")


def seen(column: str, side: str) -> str:
    """The column that holds a value (or, as PLACE:VALUE, its place) on that side, itself included."""
    return f"__{side}:{column}__"


def around(value: str, *places: str) -> list[pl.Expr]:
    """Of each row the nearest known value before it and after it, itself included, and their places (Int64 columns)."""
    known = pl.col(value).is_not_null()
    wanted = {value: pl.col(value)} | {f"{place}:{value}": pl.when(known).then(pl.col(place)).otherwise(None) for place in places}
    found = []
    for name, expr in wanted.items():
        found.append(expr.forward_fill().over(START).alias(seen(name, "before")))
        found.append(expr.backward_fill().over(START).alias(seen(name, "after")))
    return found


def line(value: str, place: str) -> pl.Expr:
    """The value on the line between the two, Float64, in proportion to the place; null before the first known one and after the last."""
    low, high = (pl.col(seen(value, side)).cast(pl.Float64) for side in SIDES)
    first, last = (pl.col(seen(f"{place}:{value}", side)) for side in SIDES)
    whole, far = last.cast(pl.Float64) - first.cast(pl.Float64), pl.col(place).cast(pl.Float64) - first.cast(pl.Float64)
    share = pl.when(last > first).then(far / whole).otherwise(0.0)
    between = pl.when(low == high).then(low).otherwise(low * (1 - share) + high * share)
    return pl.when(last > first).then(between).otherwise(pl.when(last == first).then(low).otherwise(None))
