"""Give columns another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.sql.alike import dated
from pipeline.sql.checks import Problem, failing
from pipeline.sql.conversion import converted, infinite_in, loses, lost, narrowed, there_and_back
from pipeline.sql.expression import Value, finite
from pipeline.stage import ColumnName, Rows, need_columns
from pipeline.tables.counts import Count
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.infinities import INFINITIES, counted
from pipeline.tables.part import Schema

ISO_DATE, ISO_DATETIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"
TRUE, FALSE = ["true", "t", "yes", "y", "1"], ["false", "f", "no", "n", "0"]
REMEDY = "With strict: false it becomes null; derive can round or replace it first."


class Cast(Rows, name="cast", version=2):
    """Give columns another type; a value that does not fit is an error, or null with `strict: false`.

    Text is trimmed first. What does not fit: a fraction, or a number beyond its range, an integer type; a whole number that would be
    rounded, or what is beyond its range, a float type; nanoseconds a datetime, which has microseconds; parts of a second a text. Fractions
    are rounded to the nearest float, decimals of more than 15 digits to one of the two beside them. NaN and infinities become null. Text to
    boolean takes true, t, yes, y, 1 and false, f, no, n, 0. A number becomes true where it is not 0. A datetime becomes the date of its
    day, with a zone by the local clock, as text of it does; datetime has no zone, so one that has needs `strict: false` and becomes what
    the local clock shows.

    Example: {use: cast, from: loans, as: typed, columns: {origination_date: date, credit_score: int32}, strict: false}
    """

    keeps_rows_apart: ClassVar[bool] = True

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    columns: dict[ColumnName, DtypeName] = Field(min_length=1, description="Column: its new type.")
    strict: bool = Field(True, description="Whether a value that does not fit is an error; else it becomes null.")
    format: str | None = Field(None, description=f"How text writes a date or datetime; {ISO_DATE} or {ISO_DATETIME} where not given.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Every column exists, and its type can be turned into the new one."""
        need_columns(schema, self.columns, key="columns")
        for name, wanted in self.columns.items():
            if problem := _impossible(schema.columns[name], DTYPES[wanted]) or self._drops_zone(schema.columns[name], DTYPES[wanted]):
                raise StageError(f"column {name!r} is {schema.columns[name]} and cannot be cast to {wanted}: {problem}", key="columns")
        if self.format is not None and not any(DTYPES[wanted].is_temporal() for wanted in self.columns.values()):
            raise StageError("format says how text writes a date or datetime, and no column is cast to one", key="format")

    def writes(self) -> frozenset[str]:
        """The columns cast."""
        return frozenset(self.columns)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the columns in their new types."""
        schema = rows.collect_schema()
        return rows.with_columns(counted(rows, self._cast(schema[name], name)).alias(name) for name in self.columns)

    def _cast(self, old: pl.DataType, name: str) -> Value:
        wanted = self.columns[name]
        new, value = DTYPES[wanted], pl.col(name).str.strip_chars() if old == pl.String else pl.col(name)
        answer = finite(_converted(value, old, new, self.format), new)
        infinite = infinite_in(value, old, new)
        if not self.strict or not _may_lose(old, new):
            return Value(answer, new, infinite)
        what = f"column {name!r} cannot be cast to {wanted}: a value does not fit"
        checked = failing(answer, lost(pl.col(name), answer, old, new), Problem(what, REMEDY, (name,), f"columns.{name}"))
        return Value(checked, new, infinite)

    def _drops_zone(self, old: pl.DataType, new: pl.DataType) -> str:
        if self.strict and isinstance(old, pl.Datetime) and old.time_zone and isinstance(new, pl.Datetime):
            return "that type has no time zone. With strict: false it becomes what the local clock shows"
        return ""


def _converted(value: pl.Expr, old: pl.DataType, new: pl.DataType, layout: str | None) -> pl.Expr:
    """The expression of a cast, with null for what does not fit."""
    if old == new:
        return value
    if old == pl.String and new == pl.Date():
        return dated(value, layout or ISO_DATE).str.to_date(layout or ISO_DATE, strict=False, cache=False)
    if old == pl.String and new == pl.Datetime("us"):
        layout = layout or ISO_DATETIME
        return dated(value, layout).str.to_datetime(layout, time_unit="us", strict=False, cache=False)
    if old == pl.String and new == pl.Boolean():
        lower = value.str.to_lowercase()
        return pl.when(lower.is_in(TRUE)).then(pl.lit(True)).when(lower.is_in(FALSE)).then(pl.lit(False)).otherwise(None)
    if old == pl.String and new.is_integer():
        return converted(value, old, new)
    if isinstance(old, pl.Datetime):
        return _from_datetime(value.dt.replace_time_zone(None) if old.time_zone else value, pl.Datetime(old.time_unit), new)
    if old == pl.Date and new == pl.String():
        return value.dt.to_string(ISO_DATE)
    if (old.is_decimal() and new.is_integer()) or (old.is_integer() and new.is_float()):
        return there_and_back(value, old, new)
    if old.is_float() and new.is_integer():
        value = pl.when(value == value.floor()).then(value).otherwise(None)
    return narrowed(value, old, new) if old.is_numeric() and new.is_integer() else value.cast(new, strict=False)


def _from_datetime(value: pl.Expr, old: pl.Datetime, new: pl.DataType) -> pl.Expr:
    """A datetime without a zone as text, a date or microseconds; null where a part of its seconds would be lost but for a date."""
    if new == pl.String():
        return pl.when(value.dt.nanosecond() == 0).then(value.dt.to_string(ISO_DATETIME)).otherwise(None)
    return value.cast(new, strict=False) if new == pl.Date() or old == new else there_and_back(value, old, new)


def _may_lose(old: pl.DataType, new: pl.DataType) -> bool:
    """Whether a value of one type may not fit the other."""
    if isinstance(old, pl.Datetime) and new == pl.String():
        return True
    if old.is_integer() and new.is_float():
        exact = {pl.Int8(), pl.Int16(), pl.UInt8(), pl.UInt16()} | ({pl.Int32(), pl.UInt32()} if new == pl.Float64 else set())
        return old not in exact
    return loses(old, new) or (old == pl.String and new == pl.Boolean)


def _impossible(old: pl.DataType, new: pl.DataType) -> str:
    """Why a type cannot be turned into another, with a way out; '' where it can."""
    if not (old.is_numeric() or old.base_type() in {pl.Date, pl.Datetime} or old in {pl.String, pl.Boolean}):
        return "only numbers, text, booleans and dates are cast"
    if old.is_float() and new == pl.String():
        return "a fraction has no one spelling. Round it in a derive and cast it to an integer first"
    if old.is_temporal() != new.is_temporal() and pl.String() not in {old, new}:
        return "a date is no number. Take its parts in a derive, as in extract(year from d)"
    return ""
