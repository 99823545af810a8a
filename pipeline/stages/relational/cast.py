"""Give columns another type."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.sql.expression import finite
from pipeline.sql.whole import OVERFLOW
from pipeline.stage import ColumnName, Context, Outcome, Rows, need_columns
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

ISO_DATE, ISO_DATETIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"
TRUE, FALSE = ["true", "t", "yes", "y", "1"], ["false", "f", "no", "n", "0"]
NO_NUMBER = r"^\s*[-+]?(nan|inf|infinity)\s*$"
EXAMPLES = 3
MANTISSA = {"float32": 24, "float64": 53}


class Cast(Rows, name="cast", version=2):
    """Give columns another type; a value that does not fit is an error, or null with `strict: false`.

    Text is trimmed first. What does not fit: a fraction, or a number beyond its range, an integer type; a whole number that would be
    rounded, or what is beyond its range, a float type; nanoseconds a datetime, which has microseconds; parts of a second a text. Fractions
    and decimals are rounded to the nearest float. NaN and infinities become null. Text to boolean takes true, t, yes, y, 1 and false, f,
    no, n, 0. A number becomes true where it is not 0. A datetime becomes the date of its day, with a zone by the local clock, as text of
    it does; datetime has no zone, so one that has needs `strict: false` and becomes what the local clock shows.

    Example: {use: cast, from: loans, as: typed, columns: {origination_date: date, credit_score: int32}, strict: false}
    """

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

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One lazy map; before it a check of the values where the engines would cut or wrap them in silence."""
        (rows,) = tables.values()
        assert rows.schema is not None
        if self.strict and (unchecked := self._unchecked(rows.schema.columns)):
            rows = rows.named(context.name).map_parts(self._checked, unchecked, writes=frozenset())
        return super().run({"": rows}, context)

    def apply(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the columns in their new types."""
        schema = rows.collect_schema()
        return rows.with_columns(
            (
                _unrounded(name, schema[name], wanted)
                if self.strict and _may_round(schema[name], DTYPES[wanted])
                else self._cast(schema, name)
            ).alias(name)
            for name, wanted in self.columns.items()
        )

    def _cast(self, schema: pl.Schema, name: str, strict: bool | None = None) -> pl.Expr:
        dtype = DTYPES[self.columns[name]]
        value = pl.col(name).str.strip_chars() if schema[name] == pl.String else pl.col(name)
        return finite(_converted(value, schema[name], dtype, self.format, self.strict if strict is None else strict), dtype)

    def _drops_zone(self, old: pl.DataType, new: pl.DataType) -> str:
        if self.strict and isinstance(old, pl.Datetime) and old.time_zone and isinstance(new, pl.Datetime):
            return "that type has no time zone. With strict: false it becomes what the local clock shows"
        return ""

    def _unchecked(self, schema: pl.Schema) -> list[str]:
        """Columns whose values the engines cut (1.5 to 1), wrap (300 to 44), round, or do not cast at all (text to boolean)."""
        pairs = {name: (schema[name], DTYPES[wanted]) for name, wanted in self.columns.items()}
        return [name for name, (old, new) in pairs.items() if _may_lose(old, new) and not _may_round(old, new)]

    def _checked(self, part: Part, columns: list[str]) -> Part:
        for name in columns:
            old, new = part.frame.schema[name], DTYPES[self.columns[name]]
            lost = self._cast(part.frame.schema, name, strict=False).is_null() & pl.col(name).is_not_null()
            if new.is_float() and old.is_float():
                lost &= pl.col(name).is_finite()
            if new.is_float() and old == pl.String:
                lost &= ~pl.col(name).str.to_lowercase().str.contains(NO_NUMBER)
            bad = part.frame.select(pl.col(name), row=pl.int_range(1, pl.len() + 1)).filter(lost)
            if bad.height:
                values = bad[name] if old != pl.Datetime("ms") else bad[name].to_physical()  # Python has no dates so far away
                some = ", ".join(map(repr, values.unique().sort().head(EXAMPLES).to_list()))
                raise DataError(
                    f"column {name!r} cannot be cast to {self.columns[name]}: {bad.height} values do not fit, such as {some}; the first is "
                    f"{values[0]!r} in row {bad['row'][0]:,} of its part. With strict: false they become null; derive can round or "
                    "replace them first.",
                    key=f"columns.{name}",
                )
        return part


def _converted(value: pl.Expr, old: pl.DataType, new: pl.DataType, layout: str | None, strict: bool) -> pl.Expr:
    """The expression of a cast, with null for what does not fit where the engines would not say so."""
    if old == new:
        return value
    if old == pl.String and new == pl.Date():
        return value.str.to_date(layout or ISO_DATE, strict=strict, cache=False)
    if old == pl.String and new == pl.Datetime("us"):
        return value.str.to_datetime(layout or ISO_DATETIME, time_unit="us", strict=strict, cache=False)
    if old == pl.String and new == pl.Boolean():
        lower = value.str.to_lowercase()
        return pl.when(lower.is_in(TRUE)).then(pl.lit(True)).when(lower.is_in(FALSE)).then(pl.lit(False)).otherwise(None)
    if old == pl.String and new == pl.UInt64:  # Int64 holds the half of it
        above = pl.when(~value.str.starts_with("-")).then(value).otherwise(None).cast(pl.UInt64, strict=False)
        return pl.coalesce(_narrowed(value.cast(pl.Int64, strict=False), pl.Int64(), new), above)
    if old == pl.String and new.is_integer():
        return _narrowed(value.cast(pl.Int64, strict=strict), pl.Int64(), new)
    if isinstance(old, pl.Datetime):
        return _from_datetime(value.dt.replace_time_zone(None) if old.time_zone else value, pl.Datetime(old.time_unit), new)
    if old == pl.Date and new == pl.String():
        return value.dt.to_string(ISO_DATE)
    if (old.is_decimal() and new.is_integer()) or (old.is_integer() and new.is_float()):
        return _there_and_back(value, old, new)
    if old.is_numeric() and new.is_integer():
        return _narrowed(value, old, new)
    return value.cast(new, strict=strict)


def _from_datetime(value: pl.Expr, old: pl.Datetime, new: pl.DataType) -> pl.Expr:
    """A datetime without a zone as text, a date or microseconds; null where a part of its seconds would be lost but for a date."""
    if new == pl.String():
        return pl.when(value.dt.nanosecond() == 0).then(value.dt.to_string(ISO_DATETIME)).otherwise(None)
    return value.cast(new, strict=False) if new == pl.Date() or old == new else _there_and_back(value, old, new)


def _there_and_back(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """The value in its new type; null where that, turned back, is another."""
    there = value.cast(new, strict=False)
    return pl.when(there.cast(old, strict=False) == value).then(there).otherwise(None)


def _narrowed(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """An integer of another type; null where the number has a fraction or is beyond the type's range."""
    if _within(old, new):
        return value.cast(new)
    low, high = _range(new)
    fits = pl.lit(True)
    if old.is_float():
        fits = (value == value.floor()) & (value >= float(low)) & (value < float(high + 1))
    else:
        least, most = _range(old)
        fits = fits if low <= least else fits & (value >= pl.lit(low, dtype=old))
        fits = fits if high >= most else fits & (value <= pl.lit(high, dtype=old))
    return pl.when(fits).then(value).otherwise(None).cast(new, strict=False)


def _unrounded(name: str, old: pl.DataType, wanted: str) -> pl.Expr:
    """Whole numbers as floats, and an error within the query, which stays one with its neighbours, where one would be rounded."""
    value, new = pl.col(name), DTYPES[wanted]
    there = value.cast(new, strict=False)
    text = f"{OVERFLOW}column '{name}' cannot be cast to {wanted}, which would round a whole number in it (beyond 2**{MANTISSA[wanted]}). "
    text += "With strict: false it becomes null; cast(... as double) in a derive rounds it."
    lost = value.is_not_null() & _there_and_back(value, old, new).is_null()
    return there + pl.when(lost).then(pl.lit(text)).otherwise(pl.lit("0")).cast(new)


def _may_round(old: pl.DataType, new: pl.DataType) -> bool:
    """Whether these are whole numbers that a float type may round."""
    return old.is_integer() and new.is_float() and _may_lose(old, new)


def _may_lose(old: pl.DataType, new: pl.DataType) -> bool:
    """Whether a value of one type may not fit the other, and the engines would not say so."""
    if old == pl.String:
        return not new.is_temporal() and new not in {pl.String(), pl.Int64()}
    if isinstance(old, pl.Datetime):
        return new == pl.String() or (isinstance(new, pl.Datetime) and old.time_unit != new.time_unit)
    if new.is_float():
        exact = {pl.Int8(), pl.Int16(), pl.UInt8(), pl.UInt16()} | ({pl.Int32(), pl.UInt32()} if new == pl.Float64 else set())
        return (old.is_integer() and old not in exact) or (old == pl.Float64 and new == pl.Float32)
    return new.is_integer() and old.is_numeric() and not _within(old, new)


def _within(old: pl.DataType, new: pl.DataType) -> bool:
    """Whether every value of a number's type fits an integer type."""
    if not old.is_integer():
        return False
    (least, most), (low, high) = _range(old), _range(new)
    return low <= least and most <= high


def _range(dtype: pl.DataType) -> tuple[int, int]:
    """Least and greatest value of an integer type, from its name: Int8 holds -128 to 127."""
    name = str(dtype)
    bits = int(name.removeprefix("U").removeprefix("Int"))
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _impossible(old: pl.DataType, new: pl.DataType) -> str:
    """Why a type cannot be turned into another, with a way out; '' where it can."""
    if not (old.is_numeric() or old.base_type() in {pl.Date, pl.Datetime} or old in {pl.String, pl.Boolean}):
        return "only numbers, text, booleans and dates are cast"
    if old.is_float() and new == pl.String():
        return "a fraction has no one spelling. Round it in a derive and cast it to an integer first"
    if old.is_temporal() != new.is_temporal() and pl.String() not in {old, new}:
        return "a date is no number. Take its parts in a derive, as in extract(year from d)"
    return ""
