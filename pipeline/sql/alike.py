"""Operators in forms that Polars and cuDF answer alike: on the plain ones cuDF differs in silence (docs/gpu.md)."""

from __future__ import annotations

import re

import polars as pl

from pipeline.sql.tree import Node, guarded_size, operator

DIGITS = {"%Y": r"\s*[-+]?[0-9]+", **dict.fromkeys(("%m", "%d", "%H", "%M", "%S"), r"\s*[0-9]{1,2}")}
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


def dated(text: pl.Expr, layout: str) -> pl.Expr:
    """A text to be read as a date or timestamp, null where something stands behind it, which cuDF would not look at.

    What Polars reads it leaves as it is. A layout with other parts than digits of fixed meaning is left to the plan, which refuses it.
    """
    pieces = re.findall(r"%.|[^%]", layout, re.DOTALL)
    if not {piece for piece in pieces if piece[0] == "%"} <= DIGITS.keys():
        return text
    pattern = "".join(DIGITS.get(piece) or (r"\s*" if piece.isspace() else re.escape(piece)) for piece in pieces)
    whole = text.str.contains(f"^{pattern}$") & ~text.str.ends_with("\n")  # before which cuDF's `$` stands too
    return pl.when(whole).then(text).otherwise(None)
