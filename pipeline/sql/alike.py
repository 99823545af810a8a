"""Operators in forms that Polars and cuDF answer alike: on the plain ones cuDF differs in silence (docs/gpu.md)."""

from __future__ import annotations

import polars as pl

from pipeline.sql.tree import Node, guarded_size, operator

FEW_DIGITS = 15  # decimals that a float has a power of ten for


def remainder(left: Node, right: Node) -> Node:
    """What is left of a division that floors. cuDF's own adds the divisor once more: a float loses digits there, an integer may wrap."""
    guarded_size(left)
    guarded_size(right)
    return operator(left, "Minus", operator(operator(left, "FloorDivide", right), "Multiply", right))


def rounded(value: pl.Expr, decimals: int, dtype: pl.DataType) -> pl.Expr:
    """Floats of the type to some decimals, as np.round has it. cuDF rounds what stands behind the point alone: 2.675 comes out otherwise.

    The divisor is a column: by a constant Polars would multiply with its reciprocal.
    """
    if not 0 < decimals <= FEW_DIGITS:
        return value.round(decimals)
    wide = value if dtype == pl.Float64 else value.cast(pl.Float64)
    scale = pl.lit(10.0**decimals)
    scaled = (wide * scale).round(0)
    answer = pl.when(scaled.is_finite()).then(scaled / (scale + wide * 0.0)).otherwise(wide)
    return answer if dtype == pl.Float64 else answer.cast(dtype)
