"""The text of a file as Python reads it: unpacked, decoded, in blocks, and row by row with the lines at which rows begin."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, TextIO, cast

from isal import igzip, igzip_lib

from pipeline.bounds import Bounds, bounded
from pipeline.errors import DataError, InputError
from pipeline.files import for_polars, open_file, stamp
from pipeline.formats._csv_dialect import Dialect

BLOCK_BYTES = 1 << 20
NEAR_BYTES = 1 << 18  # of a block that is gone over by many operations: a processor has it near at hand
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
UNREADABLE = (OSError, EOFError, csv.Error, UnicodeError, zlib.error, cast("type[Exception]", igzip_lib.IsalError))

_PACKINGS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}


def unreadable(path: str, error: Exception, dialect: Dialect) -> str:
    """What is said of a file whose bytes, or characters, cannot be had."""
    if isinstance(error, UnicodeError):
        remedy = "say what it is with encoding: windows-1252, utf-16 or another."
        remedy = f"Save it as UTF-8 (iconv does that), or {remedy}" if dialect.encoding == "utf-8" else remedy.capitalize()
        return f"{path}: not {dialect.encoding.upper()} text ({error}). {remedy}"
    return f"{path}: cannot be read ({error}). Is it truncated? Copy or download it again."


@contextmanager
def opened_bytes(path: str, limits: Bounds) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where its first ones are those of gzip or zstd.

    Raises InputError for another packing, and reading it past its limits.
    """
    with open_file(path) as file:
        head = file.read(6)
        file.seek(0)
        if packing := next((name for magic, name in _PACKINGS.items() if head.startswith(magic)), None):
            raise InputError(f"{path}: is packed with {packing}, and text tables are read plain, gzipped or as zstd. Unpack it.")
        if head.startswith(GZIP):
            yield bounded(path, igzip.IGzipFile(fileobj=file), limits, stamp(path).size)
        elif head.startswith(ZSTD):
            import pyarrow as pa

            yield bounded(path, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"), limits, stamp(path).size)
        else:
            yield bounded(path, file, limits)


@contextmanager
def opened_text(path: str, dialect: Dialect) -> Iterator[TextIO]:
    """The same as text, its line ends as they are."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    with opened_bytes(path, dialect.limits) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def utf8_blocks(path: str, dialect: Dialect, block: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The text in UTF-8, block by block, without the lines that are skipped."""
    if dialect.encoding == "utf-8":
        with opened_bytes(path, dialect.limits) as file:
            for _ in range(dialect.skip):
                file.readline()
            while found := file.read(block):
                yield bytes(found)
    else:
        with opened_text(path, dialect) as text:
            for _ in range(dialect.skip):
                text.readline()
            while characters := text.read(block):
                yield characters.encode()


def utf8_between(path: str, dialect: Dialect, start: int, stop: int) -> bytes:
    """Of the same text the bytes from `start` to before `stop`: a file that is read as it lies is sought in. Raises DataError."""
    try:
        if dialect.encoding != "utf-8" or is_packed(path):
            return _between(utf8_blocks(path, dialect), start, stop)
        with open_file(path) as file:
            for _ in range(dialect.skip):
                file.readline()
            file.seek(start, io.SEEK_CUR)
            return file.read(stop - start)
    except UNREADABLE as error:
        raise DataError(unreadable(path, error, dialect)) from error


def _between(blocks: Iterable[bytes], start: int, stop: int) -> bytes:
    at, found = 0, list[bytes]()
    for block in blocks:
        if at + len(block) > start:
            found.append(block[max(start - at, 0) : stop - at])
        at += len(block)
        if at >= stop:
            break
    return b"".join(found)


def need_lines(path: str, dialect: Dialect, lines: int) -> None:
    """Raise InputError where one of the first lines of a file is longer than its limits allow, or it cannot be read."""
    try:
        with opened_bytes(path, dialect.limits) as file:
            for _ in islice(file, dialect.skip + lines):
                pass
    except UNREADABLE as error:
        raise InputError(unreadable(path, error, dialect)) from error


def is_packed(path: str) -> bool:
    """Whether a file is unpacked as it is read."""
    with open_file(path) as file:
        return file.read(4).startswith((GZIP, ZSTD))


def scannable(path: str, dialect: Dialect) -> str | bytes:
    """What a scan of Polars takes for a file: UTF-8, without comments, which it miscounts where they hold quotes. Raises DataError."""
    if not dialect.is_prepared:
        return for_polars(path)
    try:
        with opened_text(path, dialect) as text:
            return _prepared(text, dialect).encode()
    except UNREADABLE as error:
        raise DataError(unreadable(path, error, dialect)) from error


def _prepared(text: TextIO, dialect: Dialect) -> str:
    """All of a text but the lines that are left out."""
    if dialect.comment is None:
        for _ in range(dialect.skip):
            text.readline()
        return text.read()
    kept = list[str]()
    for _ in TextRows(text, dialect, kept=kept):
        pass
    return "".join(kept)


class TextRows:
    """The rows of a text, fields as they stand in it; comments and skipped lines are none.

    `line` is where the last one began, `quotes` is how many quotes there were so far; `kept` takes the lines of rows.
    """

    def __init__(self, text: TextIO, dialect: Dialect, *, strict: bool = False, kept: list[str] | None = None) -> None:
        self.line, self.quotes = 0, 0
        self._dialect, self._between, self._kept = dialect, True, kept
        self._reader = csv.reader(self._lines(text), delimiter=dialect.separator, strict=strict)

    def __iter__(self) -> Iterator[list[str]]:
        for row in self._reader:
            self._between = True
            yield row

    def _lines(self, text: TextIO) -> Iterator[str]:
        comment = self._dialect.comment
        for number, line in enumerate(text, 1):
            if number <= self._dialect.skip or (self._between and comment and line.startswith(comment)):
                continue
            if self._between:
                self.line, self._between = number, False
            self.quotes += line.count('"')
            if self._kept is not None:
                self._kept.append(line)
            yield line
