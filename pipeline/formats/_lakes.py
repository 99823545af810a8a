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
WITHOUT_TYPE = ("UInt", "Int128", "Categorical", "Enum", "Duration", "Time", "Null", "Object")


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
    """Raise JobError for a column of a type that such tables do not have."""
    for name in columns:
        if any(kind in str(schema.columns[name]).split("Datetime")[0] for kind in WITHOUT_TYPE):
            what = f"column {name!r} is {schema.columns[name]}, and {kind} has no type for it"
            raise JobError(f"{what}. Cast it in a derive stage (int64, say), or leave it out with columns.")


def in_utc(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows as such tables have them: moments in UTC, times in microseconds."""
    times = {name: dtype for name, dtype in rows.collect_schema().items() if isinstance(dtype, pl.Datetime)}
    return rows.with_columns(pl.col(name).cast(pl.Datetime("us", "UTC" if dtype.time_zone else None)) for name, dtype in times.items())


def batches(files: Sequence[str]) -> Any:
    """The rows of Parquet files as a stream of Arrow batches, a file at a time."""
    import pyarrow as pa

    def found() -> Iterator[Any]:
        """The batches of each file."""
        for file in files:
            frame = in_utc(pl.scan_parquet(for_polars(file))).collect()
            yield from frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()

    empty = in_utc(pl.scan_parquet(for_polars(files[0]))).head(0).collect()
    return pa.RecordBatchReader.from_batches(empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema, found())


def local(path: str) -> str:
    """A path as such a library names it, without file://."""
    return path if is_url(path) else path.removeprefix("file://")
