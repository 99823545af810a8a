"""CSV and TSV, plain or gzipped, with stated or inferred types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from pydantic import Field

from pipeline.errors import InputError, near
from pipeline.files import for_polars
from pipeline.format import CostlySource, InputFormat, OutputFormat, even_ranges
from pipeline.formats._csv_problems import first_problem, header_line
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Part, Schema

INFER_ROWS = 10_000
SEPARATORS = "\t;|,"


@dataclass(frozen=True)
class CsvSource(CostlySource):
    """One CSV file, or some rows of it, read with types that are known."""

    path: str
    dtypes: tuple[tuple[str, pl.DataType], ...]
    separator: str
    null_values: tuple[str, ...]
    offset: int = 0
    rows: int | None = None

    def load(self) -> pl.LazyFrame:
        """The scan; NaN of a file is null from here on."""
        scan = pl.scan_csv(for_polars(self.path), separator=self.separator, schema=dict(self.dtypes), null_values=list(self.null_values))
        scan = scan if self.rows is None else scan.slice(self.offset, self.rows)
        floats = [name for name, dtype in self.dtypes if dtype.is_float()]
        return scan.with_columns(pl.col(floats).fill_nan(None)) if floats else scan

    def explain(self) -> str | None:
        """What is wrong with the file, for a query over it that has failed; None where nothing is."""
        return first_problem(self.path, dict(self.dtypes), self.separator, self.null_values)


class CsvInput(InputFormat):
    """Text tables with a header line. Types that are not stated are inferred from the first 10,000 rows."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")

    columns: dict[str, DtypeName] = Field(default_factory=dict, description="Types of some or all columns; the others are inferred.")
    separator: str = Field(",", min_length=1, max_length=1)
    null_values: tuple[str, ...] = Field(("", "NA", "NaN", "nan"), description="Texts that mean a missing value.")

    def table_schema(self) -> Schema:
        """Names from the header line; types as stated, else inferred."""
        return Schema(pl.Schema(self._dtypes(self.files())))

    def _dtypes(self, files: Sequence[str]) -> dict[str, pl.DataType]:
        first = self._inferred(files[0])
        if missing := [name for name in self.columns if name not in first]:
            raise InputError(f"{files[0]}: columns names {missing[0]!r}, which the header line does not have.{near(missing[0], first)}")
        for file in files[1:]:
            if list(other := self._inferred(file)) != list(first):
                raise InputError(f"{file}: its header line {list(other)} differs from that of {files[0]}: {list(first)}")
        return {name: DTYPES[self.columns[name]] if name in self.columns else dtype for name, dtype in first.items()}

    def _inferred(self, path: str) -> dict[str, pl.DataType]:
        header = header_line(path, self.separator)
        self._check_header(path, header)
        try:
            scan = pl.scan_csv(
                for_polars(path), separator=self.separator, null_values=list(self.null_values), infer_schema_length=INFER_ROWS
            )
            return {name: pl.Int64() if dtype.is_integer() else dtype for name, dtype in scan.collect_schema().items()}
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = first_problem(path, dict.fromkeys(header, pl.String()), self.separator, self.null_values)
            raise InputError(problem or f"{path}: not a table of text ({error}). Is separator {self.separator!r} right?") from error

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
        whole = [CsvSource(file, dtypes, self.separator, self.null_values) for file in files]
        if self.parts is None or self.parts <= len(files):
            return whole
        return [piece for source in whole for piece in self._cut(source, -(-self.parts // len(files)))]

    def _cut(self, source: CsvSource, parts: int) -> list[CsvSource]:
        rows = int(source.load().select(pl.len()).collect(engine="streaming").item())
        return [replace(source, offset=first, rows=count) for first, count in even_ranges(rows, parts)]


class CsvOutput(OutputFormat):
    """CSV with a header line in every file."""

    name = "csv"
    suffix = ".csv"
    separator: str = Field(",", min_length=1, max_length=1)
    null_value: str = Field("", description="How a missing value is written.")

    def write(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> None:
        """Write one part's frame; arrays have no place in text and are left out."""
        part.frame.write_csv(path, separator=self.separator, null_value=self.null_value)

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows."""
        nulls = self.null_value or None
        return pl.scan_csv(source, separator=self.separator, null_values=nulls, schema_overrides=dtypes, infer_schema_length=None)
