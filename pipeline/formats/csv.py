"""CSV and TSV, plain, gzipped or as zstd, with stated or inferred types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, InputError, JobError, near
from pipeline.files import for_polars, stamp
from pipeline.format import CostlySource, OutputFormat, even_ranges
from pipeline.formats._csv_problems import first_problem, header_line
from pipeline.formats._csv_shape import Shape, shape
from pipeline.formats._finite import INFINITIES, InfinitiesOfCsv, with_finite
from pipeline.formats._hive import FolderColumn, HiveInput, with_folder_columns
from pipeline.tables.counts import Count
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Part, Schema

INFER_ROWS = 10_000
SEPARATORS = "\t;|,"

ShortRows = Literal["error", "fill"]


@dataclass(frozen=True)
class CsvSource(CostlySource):
    """One CSV file, or some rows of it, read with types that are known."""

    path: str
    dtypes: tuple[tuple[str, pl.DataType], ...]
    separator: str
    null_values: tuple[str, ...]
    short_rows: ShortRows = "error"
    folders: tuple[FolderColumn, ...] = ()
    offset: int = 0
    rows: int | None = None

    def load(self) -> pl.LazyFrame | Part:
        """The scan; NaN and infinities are null from here on. Of a file with short rows that are to be filled, the rows and their number.

        Raises DataError for a file with short rows, and for one with a quote that is never closed.
        """
        is_first = self.offset == 0 and self.rows != 0  # of more parts than rows several begin at 0
        found = shape(self.path, stamp(self.path), self.separator, len(self.dtypes)) if is_first else Shape()
        if (found.unclosed or self.short_rows == "error") and (problem := found.problem(self.path, len(self.dtypes))):
            raise DataError(problem)
        return Part(self.scan().collect(), counts={"short_rows": found.short}) if found.short else self.scan()

    def scan(self) -> pl.LazyFrame:
        """The rows, whatever their shape."""
        scan = self.plain()
        scan = scan if self.rows is None else scan.slice(self.offset, self.rows)
        return with_folder_columns(with_finite(scan, dict(self.dtypes)), self.folders)

    def plain(self) -> pl.LazyFrame:
        """The file as Polars reads it."""
        return pl.scan_csv(for_polars(self.path), separator=self.separator, schema=dict(self.dtypes), null_values=list(self.null_values))

    def places(self) -> Sequence[tuple[str, int, int | None]]:
        """Which rows of the file they are."""
        return [(self.path, self.offset, self.rows)]

    def explain(self) -> str | None:
        """What is wrong with the file, for a query over it that has failed; None where nothing is."""
        found = shape(self.path, stamp(self.path), self.separator, len(self.dtypes))
        if found.unclosed:
            return found.problem(self.path, len(self.dtypes))
        return first_problem(self.path, dict(self.dtypes), self.separator, self.null_values)


class CsvInput(HiveInput):
    """Text tables with a header line. Types that are not stated are inferred from the first 10,000 rows."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", ".txt")
    counts: ClassVar[Mapping[str, Count]] = {"short_rows": Count("rows with too few fields, filled", aside=True), **INFINITIES}

    columns: dict[str, DtypeName] = Field(default_factory=dict, description="Types of some or all columns; the others are inferred.")
    separator: str = Field(",", min_length=1, max_length=1)
    null_values: tuple[str, ...] = Field(
        ("NA", "NaN", "nan"),
        description="Texts that mean a missing value, as an empty field does. \"\" in quotes is an empty text, unless '' is one of them.",
    )
    short_rows: ShortRows = Field(
        "error",
        description="A row with fewer fields than the header line: error, or fill (what lacks is missing, and such rows are counted).",
    )

    def table_schema(self) -> Schema:
        """Names from the header line; types as stated, else inferred."""
        files = self.files()
        dtypes = self._dtypes(files)
        folders = self.folder_columns(files, list(dtypes))[files[0]]
        return Schema(pl.Schema({**dtypes, **{column.name: column.dtype for column in folders}}))

    def _dtypes(self, files: Sequence[str]) -> dict[str, pl.DataType]:
        found = dict(self._inferred(files[0]))
        if missing := [name for name in self.columns if name not in found]:
            raise InputError(f"{files[0]}: columns names {missing[0]!r}, which the header line does not have.{near(missing[0], found)}")
        for file in files[1:]:
            if list(other := self._inferred(file)) != list(found):
                raise InputError(f"{file}: its header line {list(other)} differs from that of {files[0]}: {list(found)}")
            found = {name: self._common(name, (files[0], file), (dtype, other[name])) for name, dtype in found.items()}
        stated = {name: DTYPES[given] for name, given in self.columns.items()}
        return {name: stated.get(name, dtype or pl.String()) for name, dtype in found.items()}

    def _common(self, name: str, files: tuple[str, str], dtypes: tuple[pl.DataType | None, pl.DataType | None]) -> pl.DataType | None:
        """The type of a column in two files. Raises InputError where values of one are none of the other."""
        known = {dtype for dtype in dtypes if dtype is not None}
        if len(known) < 2 or name in self.columns:
            return next(iter(known), None)
        if known == {pl.Int64(), pl.Float64()}:
            return pl.Float64()
        raise InputError(f"{files[1]}: column {name!r} reads as {dtypes[1]}, and as {dtypes[0]} in {files[0]}. State its type in columns.")

    def _inferred(self, path: str) -> dict[str, pl.DataType | None]:
        """The types that the first rows have; None for a column without a value in them."""
        header = header_line(path, self.separator)
        self._check_header(path, header)
        try:
            scan = pl.scan_csv(
                for_polars(path), separator=self.separator, null_values=list(self.null_values), infer_schema_length=INFER_ROWS
            )
            found = scan.collect_schema()
            texts = [name for name, dtype in found.items() if dtype == pl.String()]
            empty = scan.head(INFER_ROWS).select(pl.col(texts).is_null().all()).collect().row(0) if texts else ()
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = CsvSource(path, tuple((name, pl.String()) for name in header), self.separator, self.null_values).explain()
            raise InputError(problem or f"{path}: not a table of text ({error}). Is separator {self.separator!r} right?") from error
        self._need_64_bits(path, found)
        unknown = {name for name, is_empty in zip(texts, empty, strict=True) if is_empty}
        return {name: None if name in unknown else pl.Int64() if dtype.is_integer() else dtype for name, dtype in found.items()}

    def _need_64_bits(self, path: str, found: pl.Schema) -> None:
        """Raise InputError for a column of whole numbers that are beyond Int64, of which the job does not say what they are."""
        for name, dtype in found.items():
            if dtype == pl.Int128() and name not in self.columns:
                remedy = "State uint64 (up to 18446744073709551615), float64 (which rounds them) or string in columns."
                raise InputError(f"{path}: column {name!r} holds whole numbers beyond Int64. {remedy}")

    def _check_header(self, path: str, header: list[str]) -> None:
        """Raise InputError for a name that stands twice or is empty, or for a lone one that holds what usually separates names."""
        for name in header:
            if not name or header.count(name) > 1:
                what = f"names {name!r} {header.count(name)} times" if name else "has a column with no name"
                raise InputError(f"{path}: its header line {what}, and every column needs a name of its own; rename it in the file")
        others = [mark for mark in SEPARATORS if mark != self.separator and mark in header[0]]
        if len(header) == 1 and others:
            raise InputError(f"{path}: its header line {header[0]!r} is one column by separator {self.separator!r}; is it {others[0]!r}?")

    def sources(self, parallel: int) -> Sequence[CsvSource]:
        """One part a file, or `parts` ranges of rows."""
        files = self.files()
        dtypes = tuple(self._dtypes(files).items())
        folders = self.folder_columns(files, [name for name, _ in dtypes])
        whole = [CsvSource(file, dtypes, self.separator, self.null_values, self.short_rows, folders[file]) for file in files]
        if self.parts is None or self.parts <= len(files):
            return whole
        return [piece for source in whole for piece in self._cut(source, -(-self.parts // len(files)))]

    def infinities(self) -> Callable[[], int] | None:
        """A count in the files that may hold some; None where no column is a float."""
        dtypes = self._dtypes(files := self.files())
        floats = [name for name, dtype in dtypes.items() if dtype.is_float()]
        sources = {file: CsvSource(file, tuple(dtypes.items()), self.separator, self.null_values) for file in files}
        return InfinitiesOfCsv(sources, floats) if floats else None

    def _cut(self, source: CsvSource, parts: int) -> list[CsvSource]:
        rows = int(source.scan().select(pl.len()).collect(engine="streaming").item())
        return [replace(source, offset=first, rows=count) for first, count in even_ranges(rows, parts)]


class CsvOutput(OutputFormat):
    """CSV with a header line in every file."""

    name = "csv"
    suffix = ".csv"
    separator: str = Field(",", min_length=1, max_length=1)
    null_value: str = Field("", description="How a missing value is written.")

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a column of lists, structures, bytes or intervals, which have no form as text."""
        for name in columns:
            if (dtype := schema.columns[name]).is_nested() or dtype in (pl.Binary, pl.Object, pl.Duration):
                raise JobError(f"column {name!r} is {dtype}, and CSV has no text for it. Leave it out with columns, or write Parquet.")

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame; arrays have no place in text and are left out.

        Raises DataError for a text that is written as a missing value is.
        """
        texts = [name for name, dtype in part.frame.schema.items() if dtype == pl.String()] if self.null_value else []
        for name in texts:
            if (part.frame[name] == self.null_value).any():
                what = f"column {name!r} has the text {self.null_value!r}, which is how a missing value is written"
                raise DataError(f"{what}. Choose another null_value.")
        part.frame.write_csv(path, separator=self.separator, null_value=self.null_value)

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows, with the types that are told; an empty text stays one, apart from a missing value."""
        nulls = self.null_value or None
        return pl.scan_csv(source, separator=self.separator, null_values=nulls, schema_overrides=dtypes, infer_schema_length=None)
