"""Decimals as whole numbers of 128 bits, for Polars on a CPU: its own product takes 30 ns a value, of whole numbers 3, and 6 back again.

There is a way from a decimal to its units (12.34 is 1234 hundredths), and one back by Arrow alone, which cuDF lacks, and it has no need:
so an expression holds both forms, and `lowered` takes the one of the engine that will run it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import polars as pl

from pipeline.sql.casts import filled
from pipeline.sql.tree import Node, call, cast, operator, written
from pipeline.sql.whole import number

DIGITS = 38
HOLE = "units"

_on_a_cpu: ContextVar[bool] = ContextVar("on_a_cpu", default=False)


@contextmanager
def for_a_cpu(yes: bool) -> Iterator[None]:
    """Expressions that are checked inside are for Polars on a CPU, or for any engine."""
    token = _on_a_cpu.set(yes)
    try:
        yield
    finally:
        _on_a_cpu.reset(token)


def is_for_a_cpu() -> bool:
    """Whether expressions are for Polars on a CPU just now."""
    return _on_a_cpu.get()


@dataclass(frozen=True)
class Scaled:
    """Decimals as Int128: how many units of the last of `scale` digits after the point they have. Sums alone are as quick by Polars."""

    units: Node
    scale: int
    multiplied: bool = False

    @staticmethod
    def of(node: Node, dtype: pl.DataType) -> Scaled | None:
        """A column, or a whole number that stands there; None of what would have to be written out twice for it."""
        value = written(node)
        if value is not None:
            return Scaled(number(value, "Int128"), 0)
        if "Column" not in node:
            return None
        if isinstance(dtype, pl.Decimal):
            return Scaled(call("ToPhysical", node), dtype.scale)
        return Scaled(cast(node, "Int128", "NonStrict"), 0)

    def combined(self, op: str, other: Scaled) -> Scaled:
        """Plus, Minus or Multiply of both, whose digits are known to be 38 at most."""
        if op == "Multiply":
            return Scaled(operator(self.units, op, other.units), self.scale + other.scale, multiplied=True)
        scale = max(self.scale, other.scale)
        return Scaled(operator(self._at(scale), op, other._at(scale)), scale, self.multiplied or other.multiplied)

    def decimals(self) -> Node:
        """The numbers as decimals again."""
        return filled(_labelled(self.scale), {HOLE: self.units})

    def _at(self, scale: int) -> Node:
        """The same numbers in units of a smaller, or the same, digit."""
        more = 10 ** (scale - self.scale)
        match self.units:
            case {"Literal": {"Scalar": {"Int128": int(value)}}}:
                return number(value * more, "Int128")
        return self.units if more == 1 else operator(self.units, "Multiply", number(more, "Int128"))


def of_units(scale: int, units: pl.Series) -> pl.Series:
    """Decimals of 38 digits, so many after the point, from how many units they have; no value is copied but by a check of its digits."""
    import pyarrow as pa

    array: Any = units.cast(pl.Decimal(DIGITS, 0)).rechunk().to_arrow()
    labelled = pa.Array.from_buffers(pa.decimal128(DIGITS, scale), len(array), array.buffers(), offset=array.offset)
    return pl.Series(units.name, labelled)


@lru_cache(DIGITS + 1)
def _labelled(scale: int) -> Node:
    """A tree of `of_units`, with a hole for the units."""
    made = pl.col(HOLE).map_batches(partial(of_units, scale), return_dtype=pl.Decimal(DIGITS, scale), is_elementwise=True)
    return json.loads(made.meta.serialize(format="json"))
