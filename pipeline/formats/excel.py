"""Tables of Excel and OpenDocument workbooks, read by fastexcel through Polars."""

from __future__ import annotations

import logging
import struct
import zipfile
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO

import polars as pl
from pydantic import Field

from pipeline.bounds import Bounds
from pipeline.errors import InputError, PlaceError
from pipeline.files import read_bytes
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._scanned import Read, ScannedInput
from pipeline.formats._zipped import need_members
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Schema


@dataclass(frozen=True)
class Sheet:
    """Reads one sheet of a workbook: `skip` lines stand before the names of the columns."""

    sheet: str | None
    skip: int
    stated: tuple[tuple[str, DtypeName], ...]
    limits: Bounds

    def __call__(self, path: str) -> pl.LazyFrame:
        """Its rows. Raises InputError where the workbook does not have it, or cannot be read."""
        import fastexcel

        logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it warns of columns without a cell, which are text
        try:
            content = read_bytes(path)
            need_members(path, content, self.limits)
            found = pl.read_excel(BytesIO(content), sheet_name=self.sheet, infer_schema_length=None, read_options={"header_row": self.skip})
        except (fastexcel.FastExcelError, pl.exceptions.PolarsError, ValueError, struct.error, zipfile.BadZipFile, zlib.error) as error:
            what, why = f"sheet {self.sheet!r} of it" if self.sheet else "its first sheet", str(error).splitlines()[0]
            raise InputError(
                f"{path}: {what} cannot be read as a table ({why}). Is it a workbook, and the name of the sheet right?"
            ) from error
        if missing := [name for name, _ in self.stated if name not in found.columns]:
            raise InputError(f"{path}: columns names {missing[0]!r}, which the sheet does not have. It has: {', '.join(found.columns)}.")
        return found.with_columns(_typed(path, found[name], dtype) for name, dtype in self.stated).lazy()


def _typed(path: str, cells: pl.Series, stated: DtypeName) -> pl.Series:
    """Cells in a type that is stated. Raises InputError with the first one that does not fit, as a fraction does no integer type."""
    old, new = cells.dtype, DTYPES[stated]
    try:
        typed = (cells.str.strip_chars() if old == pl.String and new != pl.String else cells).cast(new, strict=False)
    except pl.exceptions.InvalidOperationError:  # no such cast is there, of text to conditions say
        typed = pl.Series(cells.name, [None] * cells.len(), dtype=new)
    exact = new.is_integer() or new == pl.Date or (old.is_integer() and new.is_float())
    there = typed.cast(old, strict=False) == cells if exact and old not in {pl.String, pl.Boolean} else typed.is_not_null()
    if (lost := cells.filter(~there.fill_null(False) & cells.is_not_null())).len():
        raise InputError(
            f"{path}: column {cells.name!r} is {old}, and not all of it is {stated}: {lost[0]}, say. State another type in columns."
        )
    return typed


class ExcelInput(ScannedInput, BoundedInput):
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

    def reads(self) -> Read:
        """Reads the sheet."""
        return Sheet(self.sheet, self.skip, tuple(self.columns.items()), self.limits)

    def table_schema(self) -> Schema:
        """The columns of the sheets. PlaceError where fastexcel is not installed."""
        if find_spec("fastexcel") is None:
            raise PlaceError("fastexcel, which reads workbooks, is not installed. Install it with: pip install '.[excel]'")
        return super().table_schema()
