"""How the text of a CSV file is to be read: its separator, encoding and first lines, its missing values, numbers and dates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.formats._csv_moments import iso_dates, iso_datetimes

Encoding = Literal[
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1251", "windows-1252",
    "mac-roman", "shift-jis", "gb18030", "big5", "euc-kr",
]  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """What a job says of the text of its files. Skipped lines come first; of the others comments begin with `comment`.

    `short_remedy` is what is to be done about a row with too few fields.
    """

    separator: str = ","
    null_values: tuple[str, ...] = ()
    encoding: Encoding = "utf-8"
    has_header: bool = True
    skip: int = 0
    comment: str | None = None
    decimal: Literal[".", ","] = "."
    date_format: str | None = None
    datetime_format: str | None = None
    limits: Bounds = DEFAULTS
    short_remedy: str = "Complete the row, or say short_rows: fill, which makes what lacks missing, and counts such rows."

    @property
    def width_of(self) -> str:
        """What says how many fields a row has."""
        return "the header line has" if self.has_header else "the table has"

    @property
    def is_prepared(self) -> bool:
        """Whether the text is not scanned as it lies in its file: lines are then left out before."""
        return self.encoding != "utf-8" or self.comment is not None

    def options(self) -> dict[str, Any]:
        """The same for a scan of Polars of a text that may be prepared; types are finished by `typed`."""
        return {
            "separator": self.separator,
            "null_values": list(self.null_values),
            "has_header": self.has_header,
            "skip_lines": 0 if self.is_prepared else self.skip,
            "decimal_comma": self.decimal == ",",
        }

    def read_as(self, dtype: pl.DataType) -> pl.DataType:
        """The type that Polars' parser gives a column, from which `typed` makes its own."""
        return pl.String() if self._value(pl.lit(""), dtype) is not None else dtype

    def typed(self, rows: pl.LazyFrame, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """Rows of the types of `read_as` with their own; a query that fails where a text is none of a column's type."""
        made = [(name, self._value(pl.col(name), dtype)) for name, dtype in dtypes.items()]
        values = [value.alias(name) for name, value in made if value is not None]
        return rows.with_columns(values) if values else rows

    def _value(self, text: pl.Expr, dtype: pl.DataType) -> pl.Expr | None:
        """The value of a text; None where Polars' parser reads it by itself."""
        present = pl.when(text != "").then(text)
        if dtype.is_float() and self.decimal == ",":  # the parser takes points too, which may be those of thousands
            return (
                pl.when(text.str.contains(".", literal=True))
                .then(pl.lit("no "))
                .otherwise(present.str.replace(",", ".", literal=True))
                .cast(dtype)
            )
        if dtype == pl.Date():
            return present.str.to_date(self.date_format) if self.date_format else iso_dates(present)
        if isinstance(dtype, pl.Datetime):
            form = self.datetime_format
            return present.str.to_datetime(form, time_unit="us") if form else iso_datetimes(present)
        return None
