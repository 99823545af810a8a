"""Whether every line of a CSV file has all its fields: Polars fills a line that is too short with nulls, and says nothing."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pipeline.errors import InputError
from pipeline.files import Stamp
from pipeline.formats._csv_problems import UNREADABLE, opened_bytes, opened_text, unreadable

BLOCK_BYTES = 1 << 20
_IN_QUOTES = re.compile(rb'"[^"]*"')


@dataclass(frozen=True)
class Shape:
    """Rows that are too short: how many, the line and the number of fields of the first; and the line of a quote that never ends."""

    short: int = 0
    line: int = 0
    fields: int = 0
    unclosed: int | None = None

    def problem(self, path: str, fields: int) -> str | None:
        """What is wrong with the first of them, with the remedy; None where nothing is."""
        if self.unclosed is not None:
            return (
                f"{path}:{self.unclosed}: a quote begins in this row and is never closed. Close it; a quote within a text is written twice."
            )
        if self.short == 0:
            return None
        has = f"{self.fields} field{'' if self.fields == 1 else 's'} where the header line has {fields}"
        return (
            f"{path}:{self.line}: {has}. Complete the row, or say short_rows: fill, which makes what lacks missing, and counts such rows."
        )


@lru_cache(maxsize=1024)
def shape(path: str, _stamp: Stamp, separator: str, fields: int) -> Shape:
    """The shape of a file of so many columns, looked at once while it is unchanged.

    Separators and line ends outside of quotes are counted, as fast as memory is read; only where they do not add up are rows looked at one
    by one. Rows that are too long are no matter of this: Polars refuses them. Raises InputError for a file that cannot be read.
    """
    try:
        separators, lines, closed = _counted(path, separator.encode())
        if closed and separators == lines * (fields - 1):
            return Shape()
        return _row_by_row(path, separator, fields, closed=closed)
    except UNREADABLE as error:
        raise InputError(unreadable(path, error)) from error


def _counted(path: str, separator: bytes) -> tuple[int, int, bool]:
    """Separators and lines outside of quotes, and whether the last quote is closed."""
    separators, lines, inside, last = 0, 0, False, b"\n"
    with opened_bytes(path) as file:
        for block in _blocks(file):
            last = block[-1:]
            text = block
            if inside:
                _, quote, text = block.partition(b'"')
                inside = not quote
            if b'"' in text:
                text, quote, _ = _IN_QUOTES.sub(b"", text).partition(b'"')
                inside = bool(quote)
            separators += text.count(separator)
            lines += text.count(b"\n")
    return separators, lines + (last != b"\n"), not inside


def _blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield bytes(block)


def _row_by_row(path: str, separator: str, fields: int, *, closed: bool) -> Shape:
    found, line = Shape(), 0
    with opened_text(path) as file:
        rows = csv.reader(file, delimiter=separator, strict=not closed)
        try:
            for row in rows:
                if len(row) < fields and (row or fields > 1):
                    first = (found.line, found.fields) if found.short else (line + 1, len(row))
                    found = Shape(found.short + 1, *first)
                line = rows.line_num
        except csv.Error:  # of a quote that is closed in the midst of a text, or at the end of the file
            return Shape(unclosed=line + 1)
    return found
