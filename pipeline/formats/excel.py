"""Tables of Excel and OpenDocument workbooks, read by fastexcel through Polars."""

from __future__ import annotations

import json
import logging
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.bounds import Bounds
from pipeline.errors import InputError, PlaceError
from pipeline.files import read_bytes
from pipeline.formats._bad_rows import BAD_ROWS, BadRow, SiftedInput, quarantined
from pipeline.formats._finite import INFINITIES
from pipeline.formats._scanned import Read, ScannedInput
from pipeline.formats._zipped import need_members
from pipeline.tables.counts import Count
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import ROW, Schema

REASON = "__reason__"


@dataclass(frozen=True)
class Sheet:
    """Reads one sheet of a workbook: `skip` lines stand before the names of the columns."""

    sheet: str | None
    skip: int
    stated: tuple[tuple[str, DtypeName], ...]
    limits: Bounds
    sifts: bool

    def __call__(self, path: str) -> pl.LazyFrame:
        """Its rows, of stated types. Raises InputError where the workbook does not have it, or cannot be read."""
        found = self._read(path)
        typed = {name: _typed(found[name], dtype) for name, dtype in self.stated}
        for name, dtype in self.stated:
            if not self.sifts and (lost := found[name].filter(typed[name][1])).len():
                text = (
                    f"column {name!r} is {found.schema[name]}, and not all of it is {dtype}: {lost[0]}, say. State another type in columns."
                )
                raise InputError(f"{path}: {text}")
        rows = found.with_columns(values for values, _ in typed.values())
        return rows.filter(~pl.any_horizontal(False, *(lost for _, lost in typed.values()))).lazy()

    def _read(self, path: str, *, whole: bool = False) -> pl.DataFrame:
        """The sheet as it is; with its empty rows where it is wanted `whole`."""
        import fastexcel

        logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it warns of columns without a cell, which are text
        try:
            content = read_bytes(path)
            need_members(path, content, self.limits)
            found = pl.read_excel(
                BytesIO(content),
                sheet_name=self.sheet,
                infer_schema_length=None,
                drop_empty_rows=not whole,
                read_options={"header_row": self.skip},
            )
        except (fastexcel.FastExcelError, pl.exceptions.PolarsError, ValueError, struct.error, zipfile.BadZipFile, zlib.error) as error:
            what, why = f"sheet {self.sheet!r} of it" if self.sheet else "its first sheet", str(error).splitlines()[0]
            raise InputError(
                f"{path}: {what} cannot be read as a table ({why}). Is it a workbook, and the name of the sheet right?"
            ) from error
        if missing := [name for name, _ in self.stated if name not in found.columns]:
            raise InputError(f"{path}: columns names {missing[0]!r}, which the sheet does not have. It has: {', '.join(found.columns)}.")
        return found

    def sifted(self, path: str) -> tuple[pl.DataFrame, int]:
        """The bad rows of a workbook, each as JSON, by the rows of the sheet, and how many rows it has with them."""
        found = self._read(path, whole=True)
        names = found.columns
        numbered = found.with_row_index(ROW, self.skip + 2).filter(~pl.all_horizontal(pl.col(names).is_null()))
        lost = {name: _typed(numbered[name], dtype)[1] for name, dtype in self.stated}
        of_columns = [
            pl.when(lost[name]).then(pl.format("column '{}' is {}, and {} is none", pl.lit(name), pl.lit(dtype), pl.col(name)))
            for name, dtype in self.stated
        ]
        reason = pl.concat_str(of_columns, separator="; ", ignore_nulls=True) if of_columns else pl.lit("")
        bad = numbered.with_columns(reason.alias(REASON)).filter(pl.any_horizontal(False, *lost.values()))
        texts = [json.dumps(row, default=str, ensure_ascii=False) for row in bad.select(names).iter_rows(named=True)]
        rows = [BadRow(line, text, why) for line, text, why in zip(bad[ROW], texts, bad[REASON], strict=True)]
        return quarantined(path, rows), numbered.height


def _typed(cells: pl.Series, stated: DtypeName) -> tuple[pl.Series, pl.Series]:
    """Cells in a type that is stated, and which of them do not fit, as a fraction does no integer type."""
    old, new = cells.dtype, DTYPES[stated]
    try:
        typed = (cells.str.strip_chars() if old == pl.String and new != pl.String else cells).cast(new, strict=False)
    except pl.exceptions.InvalidOperationError:  # no such cast is there, of text to conditions say
        typed = pl.Series(cells.name, [None] * cells.len(), dtype=new)
    exact = new.is_integer() or new == pl.Date or (old.is_integer() and new.is_float())
    there = typed.cast(old, strict=False) == cells if exact and old not in {pl.String, pl.Boolean} else typed.is_not_null()
    return typed, ~there.fill_null(False) & cells.is_not_null()


@dataclass(frozen=True)
class SheetSieve:
    """The bad rows of one workbook."""

    path: str
    sheet: Sheet

    def sifted(self) -> tuple[pl.DataFrame, int]:
        """Its bad rows, and how many rows it has with them."""
        return self.sheet.sifted(self.path)


class ExcelInput(ScannedInput, SiftedInput):
    """A sheet of a workbook (xlsx, xlsb, xls, ods) below a row of names; empty rows are left out. A part a workbook.

    A column of cells of several kinds is text, of numbers and conditions numbers. A cell that shows an error, such as #N/A, is missing, and
    a time of day is that of 1899-12-31, as the workbook has it. Columns of one name are `a`, `a_1` and so on, one without a name
    `__UNNAMED__` and its place, counted from 0.
    """

    name = "excel"
    suffixes = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
    noun = "a workbook"

    sheet: str | None = Field(None, description="The name of the sheet; the first one where it is not given.")
    skip: int = Field(0, ge=0, description="Rows above the one with the columns' names.")
    columns: dict[str, DtypeName] = Field(
        default_factory=dict, description="Types of some columns; the others are those of all their cells."
    )

    counts: ClassVar[Mapping[str, Count]] = {**BAD_ROWS, **INFINITIES}

    def sieves(self, parallel: int) -> Sequence[SheetSieve]:
        """The workbooks."""
        return [SheetSieve(file, self._sheet()) for file in self.files()] if self.sifts else ()

    def _sheet(self) -> Sheet:
        return Sheet(self.sheet, self.skip, tuple(self.columns.items()), self.limits, self.sifts)

    def reads(self) -> Read:
        """Reads the sheet."""
        return self._sheet()

    def table_schema(self) -> Schema:
        """The columns of the sheets. PlaceError where fastexcel is not installed."""
        if find_spec("fastexcel") is None:
            raise PlaceError("fastexcel, which reads workbooks, is not installed. Install it with: pip install '.[excel]'")
        return super().table_schema()
