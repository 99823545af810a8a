"""Parquet: scans that projections and filters reach; genotype calls as one fixed-size binary column."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import polars.selectors as cs
from pydantic import Field

from pipeline.backend import to_host
from pipeline.columns import AXES, AXIS_IDS
from pipeline.errors import InputError
from pipeline.format import InputFormat, OutputFormat
from pipeline.part import Part, Schema, frame_bytes, read_frame

CALLS = "calls"
SAMPLES_KEY = b"pipeline.samples"  # file metadata: the samples of the calls column, an Arrow IPC frame in base64
PART_BYTES_LEAST, PART_BYTES_MOST = 8 << 20, 256 << 20  # bytes in a part: fewer parts and larger ones than one thinks
ROW_GROUP = 250_000


def footer(path: str) -> Any:
    """The footer of a Parquet file, read once while the file is unchanged. Raises InputError where the file is none, or torn."""
    now = Path(path).stat()
    return _footer(path, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=4096)
def _footer(path: str, _changed: int, _size: int) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a whole Parquet file ({error}). Was its writing interrupted?") from error


@dataclass(frozen=True)
class RowRange:
    """`rows` rows of one file from `offset` on."""

    path: str
    offset: int
    rows: int

    def groups(self) -> list[tuple[int, int]]:
        """Number and first row of every row group that the range touches."""
        meta, start, found = footer(self.path), 0, []
        for group in range(meta.num_row_groups):
            rows = meta.row_group(group).num_rows
            if start < self.offset + self.rows and start + rows > self.offset:
                found.append((group, start))
            start += rows
        return found


@dataclass(frozen=True)
class ParquetSource:
    """Some row groups of some files, read as one scan."""

    ranges: tuple[RowRange, ...]
    calls: bool = False
    cheap: bool = True

    def load(self) -> pl.LazyFrame | Part:
        """The scan; NaN of a file is null from here on. With calls, the part itself."""
        if self.calls:
            return self._load_calls()
        scans = []
        for piece in self.ranges:
            scan = pl.scan_parquet(piece.path)
            whole = piece.rows == footer(piece.path).num_rows
            scans.append(scan if whole else scan.slice(piece.offset, piece.rows))
        rows = pl.concat(scans) if len(scans) > 1 else scans[0]
        floats = [name for name, dtype in rows.collect_schema().items() if dtype.is_float()]
        return rows.with_columns(pl.col(floats).fill_nan(None)) if floats else rows

    def _load_calls(self) -> Part:
        import pyarrow.parquet as pq

        frames, arrays = [], []
        for piece in self.ranges:
            groups = piece.groups()
            table = pq.ParquetFile(piece.path).read_row_groups([group for group, _ in groups])
            table = table.slice(piece.offset - groups[0][1] if groups else 0, piece.rows)
            column = table.column(CALLS).combine_chunks()
            width = column.type.byte_width
            flat = np.frombuffer(column.buffers()[1], np.uint8, len(column) * width, column.offset * width)
            arrays.append(flat.reshape(len(column), width))
            frame = pl.from_arrow(table.drop_columns([CALLS]))
            assert isinstance(frame, pl.DataFrame)
            frames.append(frame.with_columns(cs.float().fill_nan(None)))
        return Part(pl.concat(frames), {CALLS: np.concatenate(arrays)})

    def interval(self, column: str) -> tuple[Any, Any] | None:
        """Least and greatest value by the footers; None for floats, nulls, or where the writer left no exact statistics."""
        bounds = []
        for piece in self.ranges:
            meta = footer(piece.path)
            index = next((i for i in range(meta.num_columns) if meta.schema.column(i).path == column), None)
            for group, _ in piece.groups():
                stats = None if index is None else meta.row_group(group).column(index).statistics
                if stats is None or not (stats.has_min_max and stats.has_null_count) or stats.null_count:
                    return None
                if stats.physical_type not in {"INT32", "INT64"}:
                    return None
                bounds.append((stats.min, stats.max))
        return (min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else None


class ParquetInput(InputFormat):
    """Parquet files of one schema. With a `calls` column written by this project they are a genotype table."""

    name = "parquet"
    suffixes = (".parquet", ".pq")

    def table_schema(self) -> Schema:
        """Names and types from the footers; all files must agree."""
        files = self.files()
        first = pl.read_parquet_schema(files[0]) if footer(files[0]) else {}
        for file in files[1:]:
            footer(file)
            other = pl.read_parquet_schema(file)
            if other != first:
                differing = sorted({*first.items()} ^ {*other.items()}, key=str)[:3] or "the order"
                raise InputError(f"{file}: its columns differ from those of {files[0]}: {differing}. Give files of one schema.")
        samples = self._samples(files)
        columns = pl.Schema({name: dtype for name, dtype in first.items() if samples is None or name != CALLS})
        return Schema(columns, {} if samples is None else {CALLS: samples.schema})

    def _samples(self, files: Sequence[str]) -> pl.DataFrame | None:
        found = {(footer(file).metadata or {}).get(SAMPLES_KEY) for file in files}
        if found == {None}:
            return None
        if len(found) > 1:
            raise InputError(f"{', '.join(files[:3])}: the files' calls are of different samples; read them as tables of their own")
        return read_frame(base64.b64decode(found.pop() or b""))

    def axes(self) -> Mapping[str, pl.DataFrame]:
        """The samples of a genotype table."""
        samples = self._samples(self.files())
        return {} if samples is None else {CALLS: samples}

    def rows(self) -> int | None:
        """Rows by the footers."""
        return sum(int(footer(file).num_rows) for file in self.files())

    def sources(self, parallel: int) -> Sequence[ParquetSource]:
        """Whole row groups, a few parts per task that can run at once, of a size that the constants above bound."""
        files = self.files()
        groups = [piece for file in files for piece in _row_groups(file)]
        sizes = [sum(int(footer(piece.path).row_group(group).total_byte_size) for group, _ in piece.groups()) for piece in groups]
        total = sum(sizes)
        wanted = self.parts or max(min(parallel, total // PART_BYTES_LEAST + 1), total // PART_BYTES_MOST + 1)
        calls = self._samples(files) is not None
        if self.parts and wanted > len(groups):
            groups = [cut for piece in groups for cut in _cut(piece, -(-wanted // len(groups)))]
            sizes = [piece.rows for piece in groups]
        return [ParquetSource(tuple(bunch), calls, cheap=not calls) for bunch in _bunches(groups, sizes, wanted)]


def _row_groups(path: str) -> list[RowRange]:
    meta, offset, pieces = footer(path), 0, []
    for group in range(meta.num_row_groups):
        rows = meta.row_group(group).num_rows
        pieces.append(RowRange(path, offset, rows))
        offset += rows
    return pieces or [RowRange(path, 0, 0)]


def _cut(piece: RowRange, parts: int) -> list[RowRange]:
    bounds = [piece.rows * i // parts for i in range(parts + 1)]
    return [RowRange(piece.path, piece.offset + low, high - low) for low, high in pairwise(bounds) if high > low] or [piece]


def _bunches(groups: Sequence[RowRange], sizes: Sequence[int], wanted: int) -> list[list[RowRange]]:
    """Neighbours in at most `wanted` bunches of about equal size; those of one file become one range."""
    bunches: list[list[RowRange]] = [[] for _ in range(min(wanted, len(groups)))]
    total, done = max(sum(sizes), 1), 0
    for piece, size in zip(groups, sizes, strict=True):
        bunch = bunches[min((done + size // 2) * len(bunches) // total, len(bunches) - 1)]
        done += size
        if bunch and bunch[-1].path == piece.path:
            last = bunch.pop()
            bunch.append(RowRange(piece.path, last.offset, last.rows + piece.rows))
        else:
            bunch.append(piece)
    return [bunch for bunch in bunches if bunch]


class ParquetOutput(OutputFormat):
    """Parquet, zstd; of a genotype table the variants' rows, and its calls too with `calls: true`."""

    name = "parquet"
    suffix = ".parquet"
    calls: bool = Field(False, description="Of a genotype table, write the calls too, two bits each, one fixed-size binary column.")
    compression: Literal["zstd", "snappy", "lz4", "uncompressed"] = "zstd"

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part; arrays of features become columns named by their axis, a missing one (NaN) null."""
        frame = part.frame
        for name, array in part.arrays.items():
            if name != CALLS:
                labels = axes[name][AXIS_IDS[AXES[name]]].to_list()
                columns = [pl.Series(label, column) for label, column in zip(labels, to_host(array).T, strict=True)]
                frame = frame.hstack([column.fill_nan(None) if column.dtype.is_float() else column for column in columns])
        if self.calls and CALLS in part.arrays:
            self._write_calls(frame, to_host(part.arrays[CALLS]), axes[CALLS], path)
        else:
            frame.write_parquet(path, compression=self.compression, row_group_size=ROW_GROUP)

    def _write_calls(self, frame: pl.DataFrame, calls: np.ndarray[Any, Any], samples: pl.DataFrame, path: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        width = calls.shape[1]
        column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(calls), [None, pa.py_buffer(np.ascontiguousarray(calls))])
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).append_column(CALLS, column)
        metadata = {SAMPLES_KEY: base64.b64encode(frame_bytes(samples))}
        dictionary = [name for name in frame.columns if frame.schema[name] == pl.String]
        codec = None if self.compression == "uncompressed" else self.compression
        rows = max(1, (32 << 20) // max(width, 1))
        pq.write_table(table.replace_schema_metadata(metadata), path, compression=codec, use_dictionary=dictionary, row_group_size=rows)
