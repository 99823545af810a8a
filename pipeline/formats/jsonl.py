"""JSON by lines (NDJSON), one object a row, plain, gzipped or as zstd; objects and arrays within are structures and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from pipeline.bounds import Bounds
from pipeline.errors import InputError, JobError, near
from pipeline.files import stamp
from pipeline.format import CostlySource, OutputFormat
from pipeline.formats._bad_rows import BAD_ROWS, Sifted, quarantined
from pipeline.formats._broken import count
from pipeline.formats._csv_dialect import Dialect
from pipeline.formats._drift import by_name
from pipeline.formats._hive import FolderColumn, HiveInput, with_folder_columns
from pipeline.formats._json_bad_rows import sifted, without
from pipeline.formats._json_lines import bad_line, columns_of, columns_of_text, common, known, plain, scannable, typed, unfit_line
from pipeline.formats._text_stretches import Stretch, StretchedInput, Text, stretches
from pipeline.tables.counts import Count
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Part, Schema

WITHOUT_FORM = ("Binary", "Duration", "Object")


@dataclass(frozen=True)
class JsonlSource(CostlySource):
    """One file, or some rows of it: `read` are the types of its JSON, `stated` those that the job gives some columns."""

    path: str
    limits: Bounds
    read: tuple[tuple[str, pl.DataType], ...]
    stated: tuple[tuple[str, pl.DataType], ...]
    folders: tuple[FolderColumn, ...] = ()
    stretch: Stretch | None = None
    sifts: bool = False
    first: int | None = None

    def load(self) -> pl.LazyFrame:
        """The scan; JSON has neither NaN nor infinities."""
        return with_folder_columns(self._own().with_columns(typed(pl.col(name), dtype) for name, dtype in self.stated), self.folders)

    def raw(self) -> pl.LazyFrame:
        """All rows of the file, of the types of its JSON."""
        text = self._prepared()
        return self._scanned(scannable(self.path, self.limits) if text is None else text)

    def _own(self) -> pl.LazyFrame:
        if (stretch := self.stretch) is None:
            return self.raw()
        if not stretch.rows:
            return pl.LazyFrame(schema=dict(self.read))
        return self._scanned(stretch.read(Text(self.path, Dialect(limits=self.limits), self._prepared())))

    def _prepared(self) -> bytes | None:
        """The text without its bad lines; None where it is scanned as it is."""
        bad = self._sifted().lines if self.sifts else None
        return without(self.path, self.limits, bad) if bad else None

    def _scanned(self, text: str | bytes) -> pl.LazyFrame:
        return pl.scan_ndjson(text, schema=dict(self.read), n_rows=self.first)

    def some(self, share: float) -> JsonlSource:
        """Its first rows, of a stretch that knows how many it has."""
        return self if self.stretch is None else replace(self, first=int(self.stretch.rows * share) + 1)

    def cut(self, parts: int, folder: str | None) -> list[JsonlSource]:
        """So many sources of the rows of the file, or about so many that lie in a folder. Raises InputError for one that cannot be read."""
        text = Text(self.path, Dialect(limits=self.limits), self._prepared())
        found = stretches(text, parts, self._count, folder, quoted=False)
        return [replace(self, stretch=stretch) for stretch in found]

    def _count(self, text: bytes, _is_first: bool) -> int:
        return count(self._scanned(text), self.path, self.explain)

    def sifted(self) -> tuple[pl.DataFrame, int]:
        """The bad lines of the file, and how many rows it has with them."""
        found = self._sifted()
        return quarantined(self.path, found.bad), found.rows

    def _sifted(self) -> Sifted:
        return sifted(self.path, stamp(self.path), self.limits, self.stated)

    def places(self) -> Sequence[tuple[str, int, int | None]]:
        """Which rows of the file they are."""
        return [(self.path, self.stretch.offset, self.stretch.rows) if self.stretch else (self.path, 0, None)]

    def explain(self) -> str | None:
        """What is wrong with the file, for a query over it that has failed; None where nothing is."""
        if found := bad_line(self.path, self.limits):
            return found
        for name, dtype in self.stated:
            value = pl.col(name)
            rows = self.raw().with_row_index("row").filter(value.is_not_null() & typed(value, dtype, strict=False).is_null())
            for number, text in rows.select("row", name).head(1).collect().rows():
                return f"{self.path}: column {name!r} is {dtype}, and {text!r} in row {number + 1} is none. State another type in columns."
        return unfit_line(self.path, self.limits, dict(self.read))


class JsonlInput(HiveInput, StretchedInput):
    """JSON by lines, one object a row. Types are those of all lines; a field that a line or a file lacks is missing."""

    name = "jsonl"
    suffixes = tuple(f".{name}{packed}" for name in ("jsonl", "ndjson") for packed in ("", ".gz", ".zst"))

    counts: ClassVar[Mapping[str, Count]] = BAD_ROWS

    columns: dict[str, DtypeName] = Field(default_factory=dict, description="Types of some columns: dates, say, which JSON has as texts.")

    def table_schema(self) -> Schema:
        """The columns of all files, as stated or as their lines have them."""
        files = self.files()
        dtypes = {**self._read(files), **self._stated()}
        folders = self.folder_columns(files, list(dtypes))[files[0]]
        return Schema(pl.Schema({**dtypes, **{column.name: column.dtype for column in folders}}))

    def _stated(self) -> dict[str, pl.DataType]:
        return {name: DTYPES[dtype] for name, dtype in self.columns.items()}

    def _columns(self, file: str) -> Mapping[str, pl.DataType]:
        """The columns of a file, of its good lines where bad ones are taken aside."""
        bad = sifted(file, stamp(file), self.limits, tuple(self._stated().items())).lines if self.sifts else None
        return columns_of_text(file, without(file, self.limits, bad)) if bad else columns_of(file, stamp(file), self.limits)

    def sieves(self, parallel: int) -> Sequence[JsonlSource]:
        """The files."""
        return self.model_copy(update={"parts": None}).sources(parallel) if self.sifts else ()

    def _read(self, files: Sequence[str]) -> dict[str, pl.DataType]:
        """The columns of all files with the types of their JSON."""
        found = by_name({file: self._columns(file) for file in files}, "nulls", common)
        if wide := [name for name, dtype in found.items() if "Int128" in str(dtype) and name not in self.columns]:
            remedy = "State uint64 (up to 18446744073709551615), float64 (which rounds them) or string in columns."
            raise InputError(f"{files[0]}: column {wide[0]!r} holds whole numbers beyond Int64. {remedy}")
        if not found:
            raise InputError(f"{files[0]}: its objects have no fields")
        if missing := [name for name in self.columns if name not in found]:
            raise InputError(f"{files[0]}: columns names {missing[0]!r}, which no line has.{near(missing[0], found)}")
        return {name: known(dtype) for name, dtype in found.items()}

    def sources(self, parallel: int) -> Sequence[JsonlSource]:
        """One part a file, or `parts` stretches of lines of about as many bytes."""
        files = self.files()
        read, stated = self._read(files), tuple(self._stated().items())
        folders = self.folder_columns(files, list(read))
        whole = [JsonlSource(file, self.limits, tuple(read.items()), stated, folders[file], sifts=self.sifts) for file in files]
        return self.stretched(whole)


class JsonlOutput(OutputFormat):
    """JSON by lines. Dates, times and decimals are texts; a missing value is null."""

    name = "jsonl"
    suffix = ".jsonl"

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a column of bytes or intervals, which have no form in JSON."""
        for name in columns:
            if any(kind in str(schema.columns[name]) for kind in WITHOUT_FORM):
                what = f"column {name!r} is {schema.columns[name]}, and JSON has no form for it"
                raise JobError(f"{what}. Leave it out with columns, or write Parquet.")

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame; arrays have no place in it and are left out."""
        part.frame.write_ndjson(path)

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows with the types that are told; others are as its lines have them."""
        if _is_empty(source):
            return pl.LazyFrame(schema=dict(dtypes))
        read = {name: plain(dtype) for name, dtype in dtypes.items()}
        rows = pl.scan_ndjson(source, schema_overrides=read, infer_schema_length=None)
        return rows.with_columns(typed(pl.col(name), dtype) for name, dtype in dtypes.items())


def _is_empty(source: Any) -> bool:
    """Whether a path's file, bytes or a buffer of them hold nothing."""
    if isinstance(source, BytesIO):
        return not source.getbuffer().nbytes
    return not (source if isinstance(source, bytes) else stamp(source).size)
