"""What is wrong with a CSV file, by its line: looked for only after a query over the file has failed."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO, TextIO, cast

import polars as pl

from pipeline.errors import InputError
from pipeline.files import open_file

BATCH_ROWS = 10_000
UNREADABLE = (OSError, EOFError, csv.Error, UnicodeDecodeError)

_PACKINGS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def header_line(path: str, separator: str) -> list[str]:
    """The names in the first line that is not blank. Raises InputError for a file that is no text, or has no such line."""
    try:
        with opened_text(path) as file:
            names = next((row for row in csv.reader(file, delimiter=separator) if any(row)), None)
    except UNREADABLE as error:
        raise InputError(unreadable(path, error)) from error
    if names is None:
        raise InputError(f"{path}: has no header line; a table of text begins with the names of its columns")
    return names


def first_problem(path: str, dtypes: Mapping[str, pl.DataType], separator: str, null_values: Sequence[str]) -> str | None:
    """The first thing that keeps a file from being read with these types, with its line and the remedy; None where nothing does."""
    nulls = {"", *null_values}
    try:
        with opened_text(path) as file:
            rows = csv.reader(file, delimiter=separator)
            next(rows, None)
            lines = ((rows.line_num, row) for row in rows)
            while batch := list(islice(lines, BATCH_ROWS)):
                if found := _problem(batch, dtypes, separator, nulls):
                    return f"{path}:{found}"
    except UNREADABLE as error:
        return unreadable(path, error)
    return None


def unreadable(path: str, error: Exception) -> str:
    """What is said of a file whose bytes, or characters, cannot be had."""
    if isinstance(error, UnicodeDecodeError):
        return f"{path}: not UTF-8 text ({error}). Save it as UTF-8 (iconv does that)."
    return f"{path}: cannot be read ({error}). Is it truncated? Copy or download it again."


@contextmanager
def opened_bytes(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where its first ones are those of gzip or zstd. Raises InputError for another packing."""
    with open_file(path) as file:
        head = file.read(6)
        file.seek(0)
        if packing := next((name for magic, name in _PACKINGS.items() if head.startswith(magic)), None):
            raise InputError(f"{path}: is packed with {packing}, and text tables are read plain, gzipped or as zstd. Unpack it.")
        if head.startswith(b"\x1f\x8b"):
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=file))
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            import pyarrow as pa

            yield cast("IO[bytes]", pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
        else:
            yield file


@contextmanager
def opened_text(path: str) -> Iterator[TextIO]:
    """The same as text."""
    with opened_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
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
            if dtype.is_integer() and _WHOLE_NUMBER.fullmatch(texts[at]):
                remedy = _wider(int(texts[at]))
            found.append((batch[at][0], f"column {name!r} is {dtype}, and {texts[at]!r} is none. {remedy}"))
    return "{}: {}".format(*min(found)) if found else None


def _wider(value: int) -> str:
    """The remedy for a whole number that is beyond a column's type."""
    name = "int64" if -(2**63) <= value < 2**63 else "uint64" if 0 <= value < 2**64 else "float64 (which rounds it)"
    return f"It is beyond that type: state {name} or string in columns."


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
