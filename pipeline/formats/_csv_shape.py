"""Whether every line of a CSV file has all its fields: Polars fills a line that is too short with nulls, and says nothing."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeline.errors import InputError
from pipeline.files import Stamp
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_text import NEAR_BYTES, UNREADABLE, TextRows, opened_text, unreadable, utf8_blocks


@dataclass(frozen=True)
class Shape:
    """Rows that are too short: how many, the line and the number of fields of the first; and the line of a quote that never ends."""

    short: int = 0
    line: int = 0
    fields: int = 0
    unclosed: int | None = None

    def problem(self, path: str, fields: int, dialect: Dialect) -> str | None:
        """What is wrong with the first of them, with the remedy; None where nothing is."""
        if self.unclosed is not None:
            return (
                f"{path}:{self.unclosed}: a quote begins in this row and is never closed. Close it; a quote within a text is written twice."
            )
        if self.short == 0:
            return None
        has = f"{self.fields} field{'' if self.fields == 1 else 's'} where {dialect.width_of} {fields}"
        return f"{path}:{self.line}: {has}. {dialect.short_remedy}"


@lru_cache(maxsize=1024)
def shape(path: str, _stamp: Stamp, dialect: Dialect, fields: int) -> Shape:
    """The shape of a file of so many columns, looked at once while it is unchanged.

    Separators and line ends outside of quotes are counted, as fast as memory is read; only where they do not add up, or there may be
    comments, are rows looked at one by one. Rows that are too long are no matter of this: Polars refuses them. Raises InputError for a
    file that cannot be read.
    """
    try:
        if dialect.comment is None:
            separators, lines, closed = _counted(path, dialect)
            if closed and separators == lines * (fields - 1):
                return Shape()
            return _row_by_row(path, dialect, fields, strict=not closed)[0]
        found, closed = _row_by_row(path, dialect, fields)
        return found if closed else _row_by_row(path, dialect, fields, strict=True)[0]
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, dialect)) from error


def _counted(path: str, dialect: Dialect) -> tuple[int, int, bool]:
    """Separators and lines outside of quotes, and whether the last quote is closed."""
    separators, lines, inside, last = 0, 0, False, b"\n"
    for block in utf8_blocks(path, dialect, NEAR_BYTES):
        last, text = block[-1:], np.frombuffer(block, np.uint8)
        is_separator, is_end, is_quote = (text == sign for sign in (dialect.separator.encode()[0], ord("\n"), ord('"')))
        if inside or is_quote.any():
            within = (np.cumsum(is_quote, dtype=np.uint8) & 1) != inside
            is_separator &= ~within
            is_end &= ~within
            inside = bool(within[-1])
        separators += int(np.count_nonzero(is_separator))
        lines += int(np.count_nonzero(is_end))
    return separators, lines + (last != b"\n"), not inside


def _row_by_row(path: str, dialect: Dialect, fields: int, *, strict: bool = False) -> tuple[Shape, bool]:
    """The shape, and whether as many quotes are closed as are opened."""
    found = Shape()
    with opened_text(path, dialect) as file:
        rows = TextRows(file, dialect, strict=strict)
        try:
            for row in rows:
                if len(row) < fields and (row or fields > 1):
                    first = (found.line, found.fields) if found.short else (rows.line, len(row))
                    found = Shape(found.short + 1, *first)
        except csv.Error:  # of a quote that is closed in the midst of a text, or at the end of the file
            return Shape(unclosed=rows.line), False
        return found, rows.quotes % 2 == 0
