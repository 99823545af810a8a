"""Which row groups of which Parquet files make a part: footers, read once, and ranges of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import polars as pl

from pipeline.bounds import Bounds
from pipeline.errors import DataError, InputError
from pipeline.files import Stamp, for_polars, is_url, open_file, stamp
from pipeline.format import even_ranges

VALUE_BYTES = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "BYTE_ARRAY": 8}


def footer(path: str) -> Any:
    """The footer of a Parquet file, read once while the file is unchanged. Raises InputError where the file is none, or torn."""
    return _footer(path, stamp(path))


@lru_cache(maxsize=4096)
def _footer(path: str, _stamp: Stamp) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with opened(path) as file:
            return pq.read_metadata(file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a whole Parquet file ({error}). Was its writing interrupted?") from error


def scan(path: str) -> pl.LazyFrame:
    """A file's rows. Polars reads its footer once while the file is unchanged, and not, as it would of a new scan, with every part."""
    source = for_polars(path)
    return _scan(source, stamp(path)) if isinstance(source, str) else pl.scan_parquet(source)


@lru_cache(maxsize=64)
def _scan(path: str, _stamp: Stamp) -> pl.LazyFrame:
    return pl.scan_parquet(path)


def need_table(path: str, limits: Bounds) -> None:
    """Raise InputError where a footer tells of more than a file of its size holds: of values, or of bytes unpacked."""
    limits.need_table(path, stamp(path).size, values_bytes(path))


def values_bytes(path: str, names: Collection[str] | None = None) -> int:
    """Bytes in memory of all values of a file's columns, or of these, at most, by its footer; of texts those of their kinds alone."""
    meta, held = footer(path), 0
    for group in map(meta.row_group, range(meta.num_row_groups)):
        for column in map(group.column, range(meta.num_columns)):
            if names is None or column.path_in_schema.partition(".")[0] in names:
                values = max(column.num_values, group.num_rows)
                held += max(values * VALUE_BYTES.get(column.physical_type, 1), column.total_uncompressed_size)
    return held


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """A file as pyarrow takes it: by its path, which it maps or reads by itself; the bytes of one at a URL."""
    if is_url(path):
        with open_file(path) as file:
            yield file
    else:
        yield path


@dataclass(frozen=True)
class RowRange:
    """`rows` rows of one file of `of` rows, from `offset` on; read from a file where those from `first` on were `laid`, if there is one."""

    path: str
    offset: int
    rows: int
    of: int
    laid: str | None = None
    first: int = 0

    def scan(self) -> pl.LazyFrame:
        """The rows. Raises DataError where the file has another number of rows by now."""
        if self.laid is not None:
            return scan(self.laid).slice(self.offset - self.first, self.rows)
        rows = scan(self.checked().path)
        return rows if self.rows == self.of else rows.slice(self.offset, self.rows)

    def checked(self) -> RowRange:
        """This range. Raises DataError where the file has another number of rows by now."""
        if (now := footer(self.path).num_rows) != self.of:
            raise DataError(f"{self.path}: has {now:,} rows now, and had {self.of:,} when the job was planned. Run again.")
        return self

    def groups(self) -> list[tuple[int, int]]:
        """Number and first row of every row group that the range touches."""
        meta, start, found = footer(self.path), 0, []
        for group in range(meta.num_row_groups):
            rows = meta.row_group(group).num_rows
            if start < self.offset + self.rows and start + rows > self.offset:
                found.append((group, start))
            start += rows
        return found


def scan_of_whole_files(ranges: Sequence[RowRange]) -> pl.LazyFrame | None:
    """Several whole files as one scan: scans below one another are all read at once (docs/platform.md). None of other ranges."""
    if len(ranges) < 2 or any(piece.rows != piece.of or piece.laid is not None for piece in ranges):
        return None
    paths: list[Any] = [for_polars(piece.checked().path) for piece in ranges]
    return pl.scan_parquet(paths)


def row_groups(path: str) -> list[RowRange]:
    """A range a row group of a file; an empty one of a file without any."""
    meta, offset, pieces = footer(path), 0, []
    for group in range(meta.num_row_groups):
        rows = meta.row_group(group).num_rows
        pieces.append(RowRange(path, offset, rows, meta.num_rows))
        offset += rows
    return pieces or [RowRange(path, 0, 0, 0)]


def cut(piece: RowRange, parts: int) -> list[RowRange]:
    """A range as at most so many, none of them empty."""
    cuts = even_ranges(piece.rows, parts)
    return [replace(piece, offset=piece.offset + first, rows=count) for first, count in cuts if count] or [piece]


def neighbours(pieces: Sequence[RowRange]) -> list[RowRange]:
    """The same rows in the same order, with ranges of one file that meet as one range."""
    found = list[RowRange]()
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and replace(last, offset=last.offset + last.rows, rows=piece.rows) == piece:
            found[-1] = replace(last, rows=last.rows + piece.rows)
        else:
            found.append(piece)
    return found


def bunches(groups: Sequence[RowRange], sizes: Sequence[int], wanted: int) -> list[list[RowRange]]:
    """Neighbours in at most `wanted` bunches of about equal size; those of one file become one range."""
    bunches: list[list[RowRange]] = [[] for _ in range(min(wanted, len(groups)))]
    total, done = max(sum(sizes), 1), 0
    for piece, size in zip(groups, sizes, strict=True):
        bunch = bunches[min((done + size // 2) * len(bunches) // total, len(bunches) - 1)]
        done += size
        bunch.append(piece)
    return [neighbours(bunch) for bunch in bunches if bunch]
