"""What is wrong with a CSV file, by its line: looked for only after a query over the file has failed."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TextIO

import polars as pl

from pipeline.errors import InputError
from pipeline.files import open_file

BATCH_ROWS = 10_000


def header_line(path: str, separator: str) -> list[str]:
    """The names in the first line that is not blank. Raises InputError for a file that is no text, or has no such line."""
    try:
        with _opened(path) as file:
            names = next((row for row in csv.reader(file, delimiter=separator) if any(row)), None)
    except (OSError, EOFError, csv.Error, UnicodeDecodeError) as error:
        raise InputError(_unreadable(path, error)) from error
    if names is None:
        raise InputError(f"{path}: has no header line; a table of text begins with the names of its columns")
    return names


def first_problem(path: str, dtypes: Mapping[str, pl.DataType], separator: str, null_values: Sequence[str]) -> str | None:
    """The first thing that keeps a file from being read with these types, with its line and the remedy; None where nothing does."""
    nulls = {"", *null_values}
    try:
        with _opened(path) as file:
            rows = csv.reader(file, delimiter=separator)
            next(rows, None)
            lines = ((rows.line_num, row) for row in rows)
            while batch := list(islice(lines, BATCH_ROWS)):
                if found := _problem(batch, dtypes, separator, nulls):
                    return f"{path}:{found}"
    except (OSError, EOFError, csv.Error, UnicodeDecodeError) as error:
        return _unreadable(path, error)
    return None


def _unreadable(path: str, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{path}: not UTF-8 text ({error}). Save it as UTF-8 (iconv does that)."
    return f"{path}: cannot be read ({error}). Is it truncated? Copy or download it again."


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """The file as text, unzipped where its first bytes are those of gzip."""
    with open_file(path) as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        with io.TextIOWrapper(gzip.GzipFile(fileobj=file) if zipped else file, encoding="utf-8-sig", newline="") as text:
            yield text


def _problem(batch: Sequence[tuple[int, list[str]]], dtypes: Mapping[str, pl.DataType], separator: str, nulls: set[str]) -> str | None:
    found: list[tuple[int, str]] = []
    for line, row in batch:
        if len(row) > len(dtypes):
            what = f"{len(row)} fields where the header line has {len(dtypes)}. Put text that holds {separator!r} in quotes."
            found.append((line, what))
            break
    for place, (name, dtype) in enumerate(dtypes.items()):
        texts = ["" if place >= len(row) or row[place] in nulls else row[place] for _, row in batch]
        if dtype != pl.String() and (at := _first_unfit(texts, dtype)) is not None:
            remedy = "Correct it, name it in null_values, or state another type in columns."
            found.append((batch[at][0], f"column {name!r} is {dtype}, and {texts[at]!r} is none. {remedy}"))
    return "{}: {}".format(*min(found)) if found else None


def _first_unfit(texts: list[str], dtype: pl.DataType) -> int | None:
    """The first text that is no value of a type, by halving, as Polars' own parser sees it."""
    if _all_fit(texts, dtype):
        return None
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _all_fit(texts[low:middle], dtype) else (low, middle)
    return low


def _all_fit(texts: list[str], dtype: pl.DataType) -> bool:
    text = io.StringIO()
    csv.writer(text).writerows([["x"], *([value] for value in texts)])
    try:
        pl.read_csv(io.BytesIO(text.getvalue().encode()), schema={"x": dtype})
    except pl.exceptions.PolarsError:
        return False
    return True
