"""The rows of a CSV file that are none: too short or too long, or with a text that is no value of its column's type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import TextIO

import polars as pl

from pipeline.errors import InputError
from pipeline.files import Stamp, for_polars
from pipeline.formats._bad_rows import BadRow, Sifted
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._csv_problems import BATCH_ROWS, form_of, unfit
from pipeline.formats._csv_shape import shape
from pipeline.formats._csv_text import UNREADABLE, TextRows, opened_text, unreadable

Row = tuple[int, list[str], str]
"""The line at which a row begins, its fields, and its text."""


@lru_cache(maxsize=64)
def sifted(path: str, stamp: Stamp, columns: tuple[tuple[str, pl.DataType], ...], dialect: Dialect, short: bool) -> Sifted:
    """The bad rows of a file, looked for once while it is unchanged; `short`: those with too few fields are bad.

    A file that Polars reads whole has none; only another is read row by row. Raises InputError for one that is not to be read at all.
    """
    found = shape(path, stamp, dialect, len(columns))
    if found.unclosed is not None:
        raise InputError(str(found.problem(path, len(columns), dialect)))
    if not (found.short and short) and dialect.comment is None and dialect.encoding == "utf-8":
        with suppress(pl.exceptions.PolarsError):
            return Sifted(rows=_rows_that_fit(path, columns, dialect))
    try:
        with opened_text(path, dialect) as text:
            rows, bad, total = _rows(text, dialect), list[BadRow](), 0
            while batch := list(islice(rows, BATCH_ROWS)):
                bad += _bad(batch, dict(columns), dialect, short)
                total += len(batch)
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, dialect)) from error
    return Sifted(tuple(bad), total)


def _rows_that_fit(path: str, columns: Sequence[tuple[str, pl.DataType]], dialect: Dialect) -> int:
    """How many rows a file has of which all are good; an error of Polars where one is not."""
    schema = {name: dialect.read_as(dtype) for name, dtype in columns}
    scan = dialect.typed(pl.scan_csv(for_polars(path), schema=schema, **dialect.options()), dict(columns))
    values = [pl.col(name).null_count().alias(str(number)) for number, (name, _) in enumerate(columns)]
    return int(scan.select(pl.len().alias("rows"), *values).collect(engine="streaming")["rows"][0])


def _rows(text: TextIO, dialect: Dialect) -> Iterator[Row]:
    """The rows below the header line."""
    kept = list[str]()
    rows = TextRows(text, dialect, kept=kept)
    if dialect.has_header:
        next((row for row in rows if any(row)), None)
    kept.clear()
    for row in rows:
        yield rows.line, row, "".join(kept)
        kept.clear()


def _bad(batch: Sequence[Row], dtypes: Mapping[str, pl.DataType], dialect: Dialect, short: bool) -> list[BadRow]:
    reasons, nulls, width = dict[int, list[str]](), {"", *dialect.null_values}, len(dtypes)
    for place, (_, row, _) in enumerate(batch):
        if len(row) > width or (short and len(row) < width and (row or width > 1)):
            reasons[place] = [f"{len(row)} field{'' if len(row) == 1 else 's'} where {dialect.width_of} {width}"]
    of_width = [place for place in range(len(batch)) if place not in reasons]
    for column, (name, dtype) in enumerate(dtypes.items()):
        if dtype == pl.String():
            continue
        texts = ["" if column >= len(row := batch[place][1]) or row[column] in nulls else row[column] for place in of_width]
        for at in unfit(texts, dtype, dialect):
            reasons.setdefault(of_width[at], []).append(f"column {name!r} is {dtype}{form_of(dtype, dialect)}, and {texts[at]!r} is none")
    return [BadRow(batch[place][0], batch[place][2], "; ".join(why)) for place, why in sorted(reasons.items())]


def without(path: str, dialect: Dialect, lines: frozenset[int]) -> bytes:
    """The text of a file without the rows that begin at some lines, comments and skipped lines."""
    found, kept = list[str](), list[str]()
    with opened_text(path, dialect) as text:
        rows = TextRows(text, dialect, kept=kept)
        for _ in rows:
            if rows.line not in lines:
                found += kept
            kept.clear()
    return "".join(found).encode()


def first_rows(path: str, dialect: Dialect, most: int, width: int | None = None) -> bytes:
    """The first rows of a file, the header line with them, without what is left out; of those that have so many fields, if told."""
    found, kept = list[str](), list[str]()
    try:
        with opened_text(path, dialect) as text:
            for row in islice(TextRows(text, dialect, kept=kept), most + 1):
                if width in {None, len(row)}:
                    found += kept
                kept.clear()
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, dialect)) from error
    return "".join(found).encode()
