"""Checksums of Parquet's pages, where a writer put them there: Spark does, Arrow where it is told to, Polars and DuckDB do not.

Polars reads past them, so they are checked before it reads: the headers of pages are walked, and what follows each is summed (CRC-32).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from isal import isal_zlib

from pipeline.errors import DataError
from pipeline.files import Stamp, is_url, local_path, stamp
from pipeline.formats._parquet.ranges import RowRange, footer

SIZE, CRC = 3, 4  # fields of a page's header: its bytes as they lie there, and their checksum
HEADER = 1 << 16  # bytes that hold any header
VARINTS = {4, 5, 6}  # Thrift's compact protocol: numbers of 16, 32 and 64 bits
BYTE, DOUBLE, BINARY, LISTS, STRUCT = 3, 7, 8, {9, 10}, 12


class Page(NamedTuple):
    """A page as it lies in its file, and its checksum, if it has one."""

    data: memoryview
    crc: int | None


def need_whole(piece: RowRange) -> None:
    """Raise DataError where a page of these rows is not as it was written; files at URLs, and those without checksums, pass unread."""
    if is_url(piece.path):
        return
    for group, _ in piece.groups():
        _checked(piece.path, stamp(piece.path), group)


@lru_cache(maxsize=65_536)
def _checked(path: str, _stamp: Stamp, group: int) -> None:
    """The same of a row group, once while the file is unchanged."""
    meta = footer(path).row_group(group)
    with Path(local_path(path)).open("rb") as file:
        for number, column in enumerate(map(meta.column, range(meta.num_columns))):
            if number == 0 and not _has_checksums(file, column):
                return  # a writer has them in all pages, or in none
            for page in _pages(_read(file, column, column.total_compressed_size)):
                if page.crc is not None and isal_zlib.crc32(page.data) != page.crc:
                    raise DataError(
                        f"{path}: column {column.path_in_schema!r} of row group {group} is not as it was written: the checksum of one of "
                        "its pages does not hold. Copy the file again, or write it anew (checksums: false reads it as it is)."
                    )


def _has_checksums(file: BinaryIO, column: Any) -> bool:
    """Whether the first page of a column has one."""
    return any(page.crc is not None for page in islice(_pages(_read(file, column, HEADER)), 1))


def _read(file: BinaryIO, column: Any, size: int) -> memoryview:
    """So many bytes of a column at most. (Mapped, each page of the file would be a fault of memory, which costs more than a copy.)"""
    file.seek(min(place for place in (column.dictionary_page_offset, column.data_page_offset) if place))
    return memoryview(file.read(min(size, column.total_compressed_size)))


def _pages(data: memoryview) -> Iterator[Page]:
    """The pages of a column, in order, until one whose header cannot be read: what reads the file says that better."""
    at = 0
    while at < len(data):
        try:
            fields, start = _struct(data, at)
        except (IndexError, ValueError, RecursionError):
            return
        if fields.get(SIZE, -1) < 0:
            return
        at = start + fields[SIZE]
        yield Page(data[start:at], None if CRC not in fields else fields[CRC] & 0xFFFFFFFF)


def _struct(data: memoryview, at: int) -> tuple[dict[int, int], int]:
    """The whole numbers of a structure by their fields, and where it ends."""
    fields, field = dict[int, int](), 0
    while head := data[at]:
        at, kind = at + 1, head & 15
        field += head >> 4
        if head >> 4 == 0:
            field, at = _number(data, at)
        if kind in VARINTS:
            fields[field], at = _number(data, at)
        else:
            at = _past(data, at, kind)
    return fields, at + 1


def _past(data: memoryview, at: int, kind: int, *, alone: bool = True) -> int:
    """Where a value of that kind ends; a condition lies in the head of its field, but in a list it is a byte."""
    if kind in (1, 2):
        return at if alone else at + 1
    if kind == BYTE:
        return at + 1
    if kind == DOUBLE:
        return at + 8
    if kind in VARINTS:
        return _varint(data, at)[1]
    if kind == BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == STRUCT:
        return _struct(data, at)[1]
    if kind in LISTS:
        head, at = data[at], at + 1
        count, at = _varint(data, at) if head >> 4 == 15 else (head >> 4, at)
        for _ in range(count):
            at = _past(data, at, head & 15, alone=False)
        return at
    raise ValueError(f"a value of kind {kind}, which no page's header has")


def _number(data: memoryview, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
