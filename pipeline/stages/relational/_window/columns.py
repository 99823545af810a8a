"""The columns that a window computes: their functions, the types of their values, and the names under which these stand meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from pipeline.errors import under
from pipeline.sql.checks import Problem
from pipeline.sql.expression import Value
from pipeline.stages.relational._window.functions import Windowed


@dataclass(frozen=True)
class Column:
    """A column to compute: its name and number, its function, and the type of its values before and after they are widened."""

    name: str
    number: int
    windowed: Windowed
    dtype: pl.DataType
    wide: pl.DataType

    @property
    def value(self) -> str:
        """The column that holds its values."""
        return f"__value{self.number}__"

    def aside(self, part: str) -> str:
        """A column for what is worked out before it."""
        return f"__{part}{self.number}__"

    @property
    def result(self) -> str:
        """The column that holds it, until it gets its name."""
        return f"__result{self.number}__"

    def problem(self, what: str, remedy: str) -> Problem:
        """What is wrong with its values."""
        return Problem(f"{what} of {self.windowed.function}({self.windowed.of})", remedy, (), f"compute.{self.name}")


def columns_of(schema: pl.Schema, compute: Mapping[str, Windowed]) -> tuple[dict[str, Value], list[Column]]:
    """The values by the column that holds them, and the columns to compute. Raises StageError where they do not fit."""
    values, columns = dict[str, Value](), list[Column]()
    for number, (name, windowed) in enumerate(compute.items()):
        dtype: pl.DataType = pl.Null()
        if windowed.of is not None:
            with under(f"compute.{name}"):
                value = windowed.value(schema)
            dtype = value.dtype
        column = Column(name, number, windowed, dtype, windowed.wide(dtype))
        if windowed.of is not None:
            values[column.value] = Value(value.expr.cast(column.wide), column.wide, value.infinite)
        columns.append(column)
    return values, columns
