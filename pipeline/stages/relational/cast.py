"""Give columns another type."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.sql.expression import finite
from pipeline.stage import ColumnName, Context, Outcome, Rows, need_columns
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

ISO_DATE, ISO_DATETIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"
TRUE, FALSE = ["true", "t", "yes", "y", "1"], ["false", "f", "no", "n", "0"]
EXAMPLES = 3


class Cast(Rows, name="cast", version=1):
    """Give columns another type; a value that does not fit is an error, or null with `strict: false`.

    Text is trimmed first. A fraction does not fit an integer type, nor a number beyond its range. NaN and infinities become null. Text to
    boolean takes true, t, yes, y, 1 and false, f, no, n, 0. A number becomes true where it is not 0.

    Example: {use: cast, from: loans, as: typed, columns: {origination_date: date, credit_score: int32}, strict: false}
    """

    columns: dict[ColumnName, DtypeName] = Field(min_length=1, description="Column: its new type.")
    strict: bool = Field(True, description="Whether a value that does not fit is an error; else it becomes null.")
    format: str | None = Field(None, description=f"How text writes a date or datetime; {ISO_DATE} or {ISO_DATETIME} where not given.")

    def check_input(self, role: str, schema: Schema) -> None:
        """Every column exists, and its type can be turned into the new one."""
        need_columns(schema, self.columns, key="columns")
        for name, wanted in self.columns.items():
            if problem := _impossible(schema.columns[name], DTYPES[wanted]):
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
        return rows.with_columns(self._cast(schema, name).alias(name) for name in self.columns)

    def _cast(self, schema: pl.Schema, name: str, strict: bool | None = None) -> pl.Expr:
        dtype = DTYPES[self.columns[name]]
        value = pl.col(name).str.strip_chars() if schema[name] == pl.String else pl.col(name)
        return finite(_converted(value, schema[name], dtype, self.format, self.strict if strict is None else strict), dtype)

    def _unchecked(self, schema: pl.Schema) -> list[str]:
        """Columns whose values the engines cut (1.5 to 1), wrap (300 to 44) or do not cast at all (text to boolean)."""
        names = {name: (schema[name], DTYPES[wanted]) for name, wanted in self.columns.items()}
        text = (pl.Int64(), pl.Float32(), pl.Float64())
        return [
            name
            for name, (old, new) in names.items()
            if (old == pl.String and not new.is_temporal() and new not in {pl.String(), *text})
            or (new.is_integer() and old.is_numeric() and not _within(old, new))
        ]

    def _checked(self, part: Part, columns: list[str]) -> Part:
        for name in columns:
            lost = self._cast(part.frame.schema, name, strict=False).is_null() & pl.col(name).is_not_null()
            bad = part.frame.filter(lost)[name]
            if bad.len():
                some = ", ".join(map(repr, bad.unique().sort().head(EXAMPLES).to_list()))
                raise DataError(
                    f"column {name!r} cannot be cast to {self.columns[name]}: {bad.len()} values do not fit, such as {some}. "
                    "With strict: false they become null; derive can round or replace them first."
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
    if old == pl.String and new.is_integer():
        return _narrowed(value.cast(pl.Int64, strict=strict), pl.Int64(), new)
    if old.is_temporal() and new == pl.String():
        return value.dt.to_string(ISO_DATE if old == pl.Date else ISO_DATETIME)
    if old.is_numeric() and new.is_integer():
        return _narrowed(value, old, new)
    return value.cast(new, strict=strict)


def _narrowed(value: pl.Expr, old: pl.DataType, new: pl.DataType) -> pl.Expr:
    """An integer of another type; null where the number has a fraction or is beyond the type's range."""
    if _within(old, new):
        return value.cast(new)
    if old.is_decimal():
        value, old = value.cast(pl.Float64), pl.Float64()
    low, high = _range(new)
    fits = pl.lit(True)
    if old.is_float():
        fits = (value == value.floor()) & (value >= float(low)) & (value < float(high + 1))
    else:
        least, most = _range(old)
        fits = fits if low <= least else fits & (value >= pl.lit(low, dtype=old))
        fits = fits if high >= most else fits & (value <= pl.lit(high, dtype=old))
    return pl.when(fits).then(value).otherwise(None).cast(new, strict=False)


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
    if not (old.is_numeric() or old.is_temporal() or old in {pl.String, pl.Boolean}):
        return "only numbers, text, booleans and dates are cast"
    if old.is_float() and new == pl.String():
        return "a fraction has no one spelling. Round it in a derive and cast it to an integer first"
    if old.is_temporal() != new.is_temporal() and pl.String() not in {old, new}:
        return "a date is no number. Take its parts in a derive, as in extract(year from d)"
    return ""
