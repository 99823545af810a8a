"""One rule for floats of files: NaN and infinities are missing from the scan on, and how many infinities there were is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from pipeline.files import for_polars
from pipeline.formats._parquet.ranges import footer
from pipeline.sql.expression import finite
from pipeline.tables.counts import Count

INFINITIES = {"infinities": Count("infinite values of the files, now missing", aside=True)}
"""The words of what is counted."""

_LONG, _STRETCH = b"0" * 300, 128  # of so many digits in a row a stretch of a text has nothing else
_DIGITS = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else ord(" ") for byte in range(256))
"""Every digit is 0, all else a blank: a long number is then a text to look for, which a pattern would try from each of its digits."""


def with_finite(rows: pl.LazyFrame, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """The rows with null for NaN and infinities of their floats."""
    floats = [finite(pl.col(name), dtype).alias(name) for name, dtype in schema.items() if dtype.is_float()]
    return rows.with_columns(floats) if floats else rows


class ScannedFile(Protocol):
    """A file that can be scanned as it is."""

    def raw(self) -> pl.LazyFrame:
        """All of the file with its own columns, of their types."""


class TextFile(Protocol):
    """One of text."""

    def pieces(self) -> Iterator[pl.LazyFrame]:
        """The file with its own columns, of their types, in one or more pieces."""

    def blocks(self) -> Iterator[bytes]:
        """Its text in UTF-8."""


@dataclass(frozen=True)
class InfinitiesOfParquet:
    """Counts, as a task, the infinities in those columns of files that footers do not show to be finite."""

    columns: Mapping[str, Sequence[str]]

    def __call__(self) -> int:
        """Their number."""
        return sum(_infinities(pl.scan_parquet(for_polars(file)), names) for file, names in self.columns.items())


@dataclass(frozen=True)
class InfinitiesOfScans:
    """Counts, as a task, the infinities in those columns of files."""

    files: Sequence[tuple[ScannedFile, Sequence[str]]]

    def __call__(self) -> int:
        """Their number."""
        return sum(_infinities(file.raw(), floats) for file, floats in self.files if floats)


@dataclass(frozen=True)
class InfinitiesOfCsv:
    """Counts, as a task, the infinities in those columns of text files: only of files whose text may hold one."""

    files: Sequence[tuple[TextFile, Sequence[str]]]

    def __call__(self) -> int:
        """Their number."""
        found = [(text, floats) for text, floats in self.files if floats and _may_hold_infinities(text.blocks())]
        return sum(_infinities(rows, floats) for text, floats in found for rows in text.pieces())


def unbounded_floats(path: str) -> list[str]:
    """The float columns of a Parquet file of which its footer does not tell finite bounds."""
    meta, found = footer(path), dict[str, None]()
    for group in range(meta.num_row_groups):
        for index in range(meta.num_columns):
            column = meta.row_group(group).column(index)
            if column.physical_type not in {"FLOAT", "DOUBLE"} or "." in column.path_in_schema:
                continue
            stats = column.statistics
            is_known = stats is not None and stats.has_min_max
            if not is_known or not (abs(stats.min) < float("inf") and abs(stats.max) < float("inf")):
                found[column.path_in_schema] = None
    return list(found)


def _infinities(rows: pl.LazyFrame, names: Sequence[str]) -> int:
    counts = rows.select(pl.col(name).is_infinite().sum() for name in names).collect(engine="streaming")
    return sum(counts.row(0))


def _may_hold_infinities(blocks: Iterator[bytes]) -> bool:
    """Whether a text has `inf` or a number of a large exponent anywhere; as fast as its bytes are read."""
    tail = b""
    for block in blocks:
        if _holds_one(block) or (tail and _holds_one(tail + block[: len(_LONG)])):
            return True
        tail = (tail + block if len(block) < len(_LONG) else block)[-len(_LONG) :]
    return False


def _holds_one(text: bytes) -> bool:
    """Whether there is `inf`, an exponent of three digits, or a number of three hundred."""
    signs = np.frombuffer(text, np.uint8)
    lower, digit = signs | 32, signs - ord("0") < np.uint8(10)  # those below 0 are large without a sign
    three, exponent = digit[:-2] & digit[1:-1] & digit[2:], lower == ord("e")
    if ((lower[:-2] == ord("i")) & (lower[1:-1] == ord("n")) & (lower[2:] == ord("f"))).any():
        return True
    if (exponent[:-3] & three[1:]).any() or (exponent[:-4] & (signs[1:-3] == ord("+")) & three[2:]).any():
        return True
    of_digits = digit[: len(digit) // _STRETCH * _STRETCH].reshape(-1, _STRETCH).all(axis=1)
    return bool(of_digits.any()) and _LONG in text.translate(_DIGITS)
