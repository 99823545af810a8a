"""The parts of dates and times as numbers, and those that come round as points of a circle."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, Self

import polars as pl
from pydantic import Field, model_validator

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, Rows, need_columns
from pipeline.tables.part import Schema

Name = Literal["year", "quarter", "month", "week", "day", "day_of_year", "weekday", "hour", "minute", "second"]
Round = Literal["month", "weekday", "hour", "minute"]
PARTS: Mapping[str, Callable[[pl.Expr], pl.Expr]] = {
    "year": lambda time: time.dt.year(),
    "quarter": lambda time: time.dt.quarter(),
    "month": lambda time: time.dt.month(),
    "week": lambda time: time.dt.week(),
    "day": lambda time: time.dt.day(),
    "day_of_year": lambda time: time.dt.ordinal_day(),
    "weekday": lambda time: time.dt.weekday(),
    "hour": lambda time: time.dt.hour(),
    "minute": lambda time: time.dt.minute(),
    "second": lambda time: time.dt.second(),
}
OF_DAYS = ("hour", "minute", "second")
ROUNDS = {"month": (1, 12), "weekday": (1, 7), "hour": (0, 24), "minute": (0, 60)}  # the first, and how many there are


class DateParts(Rows, name="date_parts", version=1):
    """Add the parts of dates and timestamps, Int32, as COLUMN_PART; `cyclic` ones as COLUMN_PART_sin and COLUMN_PART_cos, Float64.

    A week is that of ISO 8601, a weekday goes from 1 (Monday) to 7. The cyclic form puts a part on a circle, so that December is as near to
    January as June to July: the sine and cosine of 2 pi times its place in its period (12 months, 7 days, 24 hours, 60 minutes), the
    first one at 0. A timestamp with a zone has the parts of its own clock. Missing stays missing.

    Example: {use: date_parts, from: readings, as: timed, columns: [time], parts: [year, month], cyclic: [hour, weekday]}
    """

    columns: ColumnNames = Field(description="Dates or timestamps.")
    parts: tuple[Name, ...] = Field((), description="The parts to add as numbers.")
    cyclic: tuple[Round, ...] = Field((), description="The parts to add as sine and cosine.")

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not (self.parts or self.cyclic):
            raise ValueError("give parts, cyclic or both")
        return self

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns hold what has such parts, and no other column is written over."""
        need_columns(schema, self.columns, key="columns")
        for name in self.columns:
            dtype = schema.columns[name]
            if not (dtype == pl.Date or isinstance(dtype, pl.Datetime)):
                raise StageError(
                    f"column {name!r} is {dtype}, and only dates and timestamps have such parts. Cast it before.", key="columns"
                )
            for part in (*self.parts, *self.cyclic):
                if dtype == pl.Date and part in OF_DAYS:
                    raise StageError(f"column {name!r} is a date, which has no {part}", key="parts" if part in self.parts else "cyclic")
        if taken := [name for name in self._made() if name in schema.columns]:
            raise StageError(f"there is a column {taken[0]!r} already. Rename or drop it before.", key="columns")

    def _made(self) -> list[str]:
        ends = [*self.parts, *(f"{part}_{way}" for part in self.cyclic for way in ("sin", "cos"))]
        return [f"{name}_{end}" for name in self.columns for end in dict.fromkeys(ends)]

    def writes(self) -> frozenset[str]:
        """The columns added."""
        return frozenset(self._made())

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the parts."""
        schema, found = rows.collect_schema(), dict[str, pl.Expr]()
        for name in self.columns:
            dtype = schema[name]
            time = pl.col(name).dt.replace_time_zone(None) if isinstance(dtype, pl.Datetime) and dtype.time_zone else pl.col(name)
            found |= {f"{name}_{part}": PARTS[part](time).cast(pl.Int32) for part in self.parts}
            for part in self.cyclic:
                first, period = ROUNDS[part]
                turn = (PARTS[part](time).cast(pl.Float64) - first) * (2 * math.pi / period)
                found |= {f"{name}_{part}_sin": turn.sin(), f"{name}_{part}_cos": turn.cos()}
        return rows.with_columns(found[name].alias(name) for name in self._made())
