"""Tables that keep their versions: read as one of them, which is fixed when a job is planned, and written by one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar

import polars as pl

from pipeline.errors import DataError, InputError, JobError, PlaceError
from pipeline.files import for_polars, is_url
from pipeline.format import InputFormat, even_ranges
from pipeline.formats._finite import INFINITIES, InfinitiesOfScans
from pipeline.formats._scanned import Read, ScannedSource
from pipeline.tables.counts import Count
from pipeline.tables.part import Schema

PART_ROWS = 5_000_000
WITHOUT_TYPE = (
    *(pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128, pl.Int128, pl.Float16),
    *(pl.Categorical, pl.Enum, pl.Duration, pl.Time, pl.Null, pl.Object),
)
Wider = Mapping[pl.DataType, pl.DataType]
NONE_WIDER: Wider = {}


def need_library(library: str, kind: str) -> None:
    """Raise PlaceError where a library is not installed."""
    if find_spec(library) is None:
        raise PlaceError(f"{library}, which reads and writes {kind} tables, is not installed. Install it with: pip install '.[lakes]'")


@dataclass(frozen=True)
class Versioned:
    """Scans a version of a table by the table's path; `listed` gives its files in the order of their rows.

    The library lists them anew in each task, and ranges of rows are right only in one order: `known` is its digest.
    """

    scan: Read
    listed: Callable[[str], list[str]]
    known: str = ""

    def __call__(self, path: str) -> pl.LazyFrame:
        """The rows. Raises DataError where the files come in another order than when the job was planned."""
        if self.known and self.known != self.order(path):
            raise DataError(
                f"{path}: the files of the version come in another order than when the job was planned. Run again, or say parts: 1."
            )
        return self.scan(path)

    def order(self, path: str) -> str:
        """A digest of the files, in their order."""
        return hashlib.blake2b("\n".join(self.listed(path)).encode(), digest_size=16).hexdigest()


class LakeInput(InputFormat):
    """Base of readers of one version of a table; `path` is the table."""

    counts: ClassVar[Mapping[str, Count]] = INFINITIES

    def reads(self) -> Versioned:
        """What reads the version."""
        raise NotImplementedError(f"{type(self).__name__} has no reads")

    def files(self) -> list[str]:
        """The files of the version."""
        return [local(file) for file in self.reads().listed(self.place())]

    def place(self) -> str:
        """The table's path. Raises InputError for several."""
        if len(self.path) > 1:
            raise InputError(
                f"{', '.join(self.path)}: an input is one {self.name} table. Read each as an input of its own, and union them."
            )
        return self.path[0]

    def table_schema(self) -> Schema:
        """The columns of the version."""
        return Schema(self.reads()(self.place()).collect_schema())

    def sources(self, parallel: int) -> Sequence[ScannedSource]:
        """Ranges of rows."""
        read = self.reads()
        scan = read(self.place())
        columns = tuple(scan.collect_schema().items())
        rows = int(scan.select(pl.len()).collect(engine="streaming").item())
        parts = self.parts or rows // PART_ROWS + 1
        read = replace(read, known=read.order(self.place())) if parts > 1 else read
        return [ScannedSource(self.place(), read, columns, columns, (), first, count) for first, count in even_ranges(rows, parts)]

    def infinities(self) -> Callable[[], int] | None:
        """A count in the float columns; None where there is none."""
        columns = self.table_schema().columns
        floats = [name for name, dtype in columns.items() if dtype.is_float()]
        source = ScannedSource(self.place(), self.reads(), tuple(columns.items()), ())
        return InfinitiesOfScans([(source, floats)]) if floats else None


def check_types(schema: Schema, columns: Sequence[str], kind: str) -> None:
    """Raise JobError for a column of a type that such tables do not have, within lists and structures too."""
    for name in columns:
        if any(isinstance(dtype, WITHOUT_TYPE) for dtype in _plain_types(schema.columns[name])):
            what = f"column {name!r} is {schema.columns[name]}, and {kind} has no type for it"
            raise JobError(f"{what}. Cast it in a derive stage (int64, say), or leave it out with columns.")


def _plain_types(dtype: pl.DataType) -> list[pl.DataType]:
    """A type that is no list and no structure; of those the types within."""
    if isinstance(dtype, pl.Struct):
        return [found for field in pl.Schema(dtype.to_schema()).values() for found in _plain_types(field)]
    return _plain_types(_of_items(dtype)) if isinstance(dtype, (pl.List, pl.Array)) else [dtype]


def _of_items(dtype: pl.List | pl.Array) -> pl.DataType:
    """The type of a list's items."""
    return dtype.inner if isinstance(dtype.inner, pl.DataType) else dtype.inner()


def held(rows: pl.LazyFrame, wider: Wider = NONE_WIDER) -> pl.LazyFrame:
    """Rows as such tables have them: moments in UTC, times in microseconds, lists of any length, and the `wider` types in place of some."""
    schema = rows.collect_schema()
    types = {name: _held(dtype, wider) for name, dtype in schema.items()}
    return rows.with_columns(pl.col(name).cast(dtype) for name, dtype in types.items() if dtype != schema[name])


def _held(dtype: pl.DataType, wider: Wider) -> pl.DataType:
    if isinstance(dtype, pl.Struct):
        return pl.Struct({name: _held(field, wider) for name, field in pl.Schema(dtype.to_schema()).items()})
    if isinstance(dtype, pl.List) or (isinstance(dtype, pl.Array) and len(dtype.shape) == 1):  # Polars fails on nulls of arrays in arrays
        return pl.List(_held(_of_items(dtype), wider))
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", "UTC" if dtype.time_zone else None)
    return wider.get(dtype, dtype)


def batches(files: Sequence[str], wider: Wider = NONE_WIDER) -> Any:
    """The rows of Parquet files as a stream of Arrow batches, a file at a time, each as `held` has it."""
    import pyarrow as pa

    def found() -> Iterator[Any]:
        """The batches of each file."""
        for file in files:
            frame = held(pl.scan_parquet(for_polars(file)), wider).collect()
            yield from frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()

    empty = held(pl.scan_parquet(for_polars(files[0])), wider).head(0).collect()
    return pa.RecordBatchReader.from_batches(empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema, found())


def local(path: str) -> str:
    """A path as such a library names it, without file://."""
    return path if is_url(path) else path.removeprefix("file://")
