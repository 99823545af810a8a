"""What is wrong with a CSV file, by its line: looked for only after a query over the file has failed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import islice

import polars as pl

from pipeline.errors import InputError
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_text import UNREADABLE, TextRows, opened_text, unreadable

BATCH_ROWS = 10_000
FORM_SHOWN = {"date_format": "%d.%m.%Y", "datetime_format": "%d.%m.%Y %H:%M"}

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def first_row(path: str, dialect: Dialect) -> list[str]:
    """The fields of the first line that is not blank. Raises InputError for a file that is no text, or has no such line."""
    try:
        with opened_text(path, dialect) as file:
            names = next((row for row in TextRows(file, dialect) if any(row)), None)
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, dialect)) from error
    if names is None:
        what = "header line; a table of text begins with the names of its columns" if dialect.has_header else "rows; give a file that has"
        raise InputError(f"{path}: has no {what}")
    if any("\0" in name for name in names):
        remedy = "Is it damaged, packed in another way, or of another encoding (encoding: utf-16-le)?"
        raise InputError(f"{path}: its first line has bytes of zero, as no text has. {remedy}")
    return names


def first_problem(path: str, dtypes: Mapping[str, pl.DataType], dialect: Dialect) -> str | None:
    """The first thing that keeps a file from being read with these types, with its line and the remedy; None where nothing does."""
    try:
        with opened_text(path, dialect) as file:
            rows = TextRows(file, dialect)
            if dialect.has_header:
                next((row for row in rows if any(row)), None)
            lines = ((rows.line, row) for row in rows)
            while batch := list(islice(lines, BATCH_ROWS)):
                if found := _problem(batch, dtypes, dialect):
                    return f"{path}:{found}"
    except UNREADABLE as error:
        return unreadable(path, error, dialect)
    return None


def _problem(batch: Sequence[tuple[int, list[str]]], dtypes: Mapping[str, pl.DataType], dialect: Dialect) -> str | None:
    found, nulls = list[tuple[int, str]](), {"", *dialect.null_values}
    for line, row in batch:
        if len(row) > len(dtypes):
            what = f"{len(row)} fields where {dialect.width_of} {len(dtypes)}. Put text that holds {dialect.separator!r} in quotes."
            found.append((line, what))
            break
    for place, (name, dtype) in enumerate(dtypes.items()):
        texts = ["" if place >= len(row) or row[place] in nulls else row[place] for _, row in batch]
        if dtype != pl.String() and (at := _first_unfit(texts, dtype, dialect)) is not None:
            remedy = "Correct it, name it in null_values, or state another type in columns."
            if dtype.is_integer() and _WHOLE_NUMBER.fullmatch(texts[at]):
                remedy = _wider(int(texts[at]))
            elif dtype.is_temporal() and not form_of(dtype, dialect):
                key = "date_format" if dtype == pl.Date() else "datetime_format"
                remedy = f"Correct it, name it in null_values, or say how such are written ({key}: {FORM_SHOWN[key]})."
            found.append((batch[at][0], f"column {name!r} is {dtype}{form_of(dtype, dialect)}, and {texts[at]!r} is none. {remedy}"))
    return "{}: {}".format(*min(found)) if found else None


def _wider(value: int) -> str:
    """The remedy for a whole number that is beyond a column's type."""
    name = "int64" if -(2**63) <= value < 2**63 else "uint64" if 0 <= value < 2**64 else "float64 (which rounds it)"
    return f"It is beyond that type: state {name} or string in columns."


def form_of(dtype: pl.DataType, dialect: Dialect) -> str:
    """How the texts of a type are to be written, where the job says it."""
    if dtype.is_float() and dialect.decimal == ",":
        return " with a decimal comma"
    form = {pl.Date: dialect.date_format, pl.Datetime: dialect.datetime_format}.get(dtype.base_type())
    return f" in the form {form}" if form else ""


def _first_unfit(texts: list[str], dtype: pl.DataType, dialect: Dialect) -> int | None:
    """The first text that is no value of a type, by halving, as Polars' own parser sees it."""
    if _all_fit(texts, dtype, dialect):
        return None
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _all_fit(texts[low:middle], dtype, dialect) else (low, middle)
    return low


def unfit(texts: list[str], dtype: pl.DataType, dialect: Dialect) -> list[int]:
    """Numbers of all texts that are no values of a type, by halving."""
    found, waiting = list[int](), [(0, len(texts))]
    while waiting:
        low, high = waiting.pop()
        if low == high or _all_fit(texts[low:high], dtype, dialect):
            continue
        if high - low == 1:
            found.append(low)
        else:
            middle = (low + high) // 2
            waiting += [(middle, high), (low, middle)]
    return found


def _all_fit(texts: list[str], dtype: pl.DataType, dialect: Dialect) -> bool:
    text = io.StringIO()
    csv.writer(text).writerows([["x"], *([value] for value in texts)])
    try:
        dialect.typed(pl.scan_csv(text.getvalue().encode(), schema={"x": dialect.read_as(dtype)}), {"x": dtype}).collect()
    except pl.exceptions.PolarsError:
        return False
    return True
