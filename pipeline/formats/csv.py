"""CSV and TSV as people have it: plain, gzipped or as zstd, of any encoding, with stated or inferred types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.errors import DataError, InputError, JobError, near
from pipeline.files import Stamp, stamp
from pipeline.format import OutputFormat
from pipeline.formats._bad_rows import BAD_ROWS
from pipeline.formats._broken import BROKEN
from pipeline.formats._csv_bad_rows import first_rows
from pipeline.formats._csv_dialect import Dialect, Encoding
from pipeline.formats._csv_formulas import without_formulas
from pipeline.formats._csv_problems import first_row
from pipeline.formats._csv_source import CsvSource, ShortRows
from pipeline.formats._csv_text import need_lines, scannable
from pipeline.formats._drift import Missing, by_name
from pipeline.formats._finite import INFINITIES, InfinitiesOfCsv
from pipeline.formats._hive import HiveInput
from pipeline.formats._text_stretches import StretchedInput
from pipeline.tables.counts import Count
from pipeline.tables.dtypes import DTYPES, DtypeName
from pipeline.tables.part import Part, Schema

INFER_ROWS = 10_000
SEPARATORS = "\t;|,"


class CsvInput(HiveInput, StretchedInput):
    """Text tables; files are one table by their columns' names. Types not stated are inferred from the first 10,000 rows."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", ".txt")
    counts: ClassVar[Mapping[str, Count]] = {**BAD_ROWS, "short_rows": Count("rows with too few fields, filled", aside=True), **INFINITIES}

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
    missing: Missing = "error"
    encoding: Encoding = Field("utf-8", description="How the text is encoded; each task decodes all of a file that is not UTF-8.")
    header: bool = Field(True, description="Whether the first line has the columns' names. false: they are those of `names`.")
    names: tuple[str, ...] = Field(
        (), description="Names of all columns of files without a header line; column_1, column_2, ... if not given."
    )
    skip: int = Field(0, ge=0, description="Lines at the beginning of every file that are left out, whatever they hold.")
    comment: str | None = Field(None, min_length=1, max_length=5, description="Lines that begin with this are left out.")
    decimal: Literal[".", ","] = Field(".", description="The decimal mark. With a comma a point is no part of a number.")
    date_format: str | None = Field(
        None, description="How columns that `columns` has as date are written, %d.%m.%Y say; 2026-01-31 where it is not given."
    )
    datetime_format: str | None = Field(
        None, description="The same for datetime: %d.%m.%Y %H:%M:%S, say; as ISO 8601 has them (2026-01-31T12:30:00) where it is not given."
    )
    _seen: dict[tuple[str, Stamp], dict[str, pl.DataType | None]] = PrivateAttr(default_factory=dict)

    @property
    def dialect(self) -> Dialect:
        """How the text is to be read."""
        return Dialect(
            separator=self.separator,
            null_values=self.null_values,
            encoding=self.encoding,
            has_header=self.header,
            skip=self.skip,
            comment=self.comment,
            decimal=self.decimal,
            date_format=self.date_format,
            datetime_format=self.datetime_format,
            limits=self.limits,
        )

    def table_schema(self) -> Schema:
        """Names from the header line; types as stated, else inferred."""
        files = self.files()
        dtypes = self._table(self._files(files))
        folders = self.folder_columns(files, list(dtypes))[files[0]]
        return Schema(pl.Schema({**dtypes, **{column.name: column.dtype for column in folders}}))

    def _files(self, files: Sequence[str]) -> dict[str, dict[str, pl.DataType | None]]:
        """The types that the columns of each file have by its first rows. Raises InputError where keys do not fit the files."""
        if self.names and self.header:
            raise InputError(f"{files[0]}: names are for files without a header line. Say header: false, or leave them out.")
        if self.decimal == self.separator:
            raise InputError(f"{files[0]}: the separator is ',', as the decimal mark is. Which one separates columns: ';'?")
        return {file: self._once(file) for file in files}

    def _once(self, file: str) -> dict[str, pl.DataType | None]:
        """What is inferred of a file, once while it is unchanged: the plan asks, and whoever reads."""
        known = (file, stamp(file))
        if known not in self._seen:
            self._seen[known] = self._inferred(file)
        return self._seen[known]

    def _table(self, files: Mapping[str, Mapping[str, pl.DataType | None]]) -> dict[str, pl.DataType]:
        """The columns of all files."""
        found = by_name(files, self.missing, self._common)
        if missing := [name for name in self.columns if name not in found]:
            what = "the header line does not have" if self.header else "is none of the columns' names"
            raise InputError(f"{next(iter(files))}: columns names {missing[0]!r}, which {what}.{near(missing[0], found)}")
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
        """The types that the first rows have; None for a column without a value in them, of which the job does not say what it is."""
        names = self._names(path)
        need_lines(path, self.dialect, INFER_ROWS)
        try:
            scan = pl.scan_csv(self._head(path, len(names)), new_columns=names, infer_schema_length=INFER_ROWS, **self._options())
            found = scan.collect_schema()
            texts = [name for name, dtype in found.items() if dtype == pl.String() and name not in self.columns]
            empty = scan.head(INFER_ROWS).select(pl.col(texts).is_null().all()).collect().row(0) if texts else ()
        except BROKEN as error:
            raise InputError(self._problem(path, names, str(error))) from error
        if len(found) != len(names):
            raise InputError(self._problem(path, names, f"its rows have up to {len(found)} fields, its first one {len(names)}"))
        self._need_64_bits(path, found)
        unknown = {name for name, is_empty in zip(texts, empty, strict=True) if is_empty}
        return {name: None if name in unknown else pl.Int64() if dtype.is_integer() else dtype for name, dtype in found.items()}

    def _head(self, path: str, width: int) -> str | bytes:
        """What types are inferred from: where bad rows are taken aside, those of the right width."""
        if not self.sifts and not self.dialect.is_prepared:
            return scannable(path, self.dialect)
        return first_rows(path, self.dialect, INFER_ROWS, width if self.sifts else None)

    def _options(self) -> dict[str, Any]:
        return {**self.dialect.options(), "skip_lines": 0} if self.sifts else self.dialect.options()

    def _problem(self, path: str, names: Sequence[str], what: str) -> str:
        """What is wrong with a file that cannot be read even as text."""
        columns = tuple((name, pl.String()) for name in names)
        problem = CsvSource(path, columns, self.dialect, columns).explain()
        return problem or f"{path}: not a table of text ({what}). Is separator {self.separator!r} right?"

    def _need_64_bits(self, path: str, found: pl.Schema) -> None:
        """Raise InputError for a column of whole numbers that are beyond Int64, of which the job does not say what they are."""
        for name, dtype in found.items():
            if dtype == pl.Int128() and name not in self.columns:
                remedy = "State uint64 (up to 18446744073709551615), float64 (which rounds them) or string in columns."
                raise InputError(f"{path}: column {name!r} holds whole numbers beyond Int64. {remedy}")

    def _names(self, path: str) -> list[str]:
        """The names of a file's columns. Raises InputError for one that stands twice or is empty, and for a wrong separator."""
        first = first_row(path, self.dialect)
        others = [mark for mark in SEPARATORS if mark != self.separator and mark in first[0]]
        if len(first) == 1 and others:
            line = "header line" if self.header else "first line"
            raise InputError(f"{path}: its {line} {first[0]!r} is one column by separator {self.separator!r}; is it {others[0]!r}?")
        if self.names and len(self.names) != len(first):
            what = f"its first row has {len(first)} fields, and names has {len(self.names)}"
            raise InputError(f"{path}: {what}. Name all columns, in their order.")
        names = first if self.header else list(self.names) or [f"column_{number}" for number in range(1, len(first) + 1)]
        for name in names:
            if not name or names.count(name) > 1:
                whose = f"{path}: its header line" if self.header else "names"
                what = f"names {name!r} {names.count(name)} times" if name else "has a column with no name"
                raise InputError(f"{whose} {what}, and every column needs a name of its own; rename it in the file")
        return names

    def sources(self, parallel: int) -> Sequence[CsvSource]:
        """One part a file, or `parts` stretches of rows of about as many bytes."""
        return self.stretched(self._whole(self.files()))

    def _whole(self, files: Sequence[str]) -> list[CsvSource]:
        found = self._files(files)
        table = self._table(found)
        folders = self.folder_columns(files, list(table))
        columns = {file: tuple((name, table[name]) for name in found[file]) for file in files}
        return [
            CsvSource(file, columns[file], self.dialect, tuple(table.items()), self.short_rows, folders[file], sifts=self.sifts)
            for file in files
        ]

    @property
    def is_prepared(self) -> bool:
        """Whether rows or comments are left out before the text is scanned."""
        return self.sifts or self.comment is not None

    def sieves(self, parallel: int) -> Sequence[CsvSource]:
        """The files."""
        return self._whole(self.files()) if self.sifts else ()

    def infinities(self) -> Callable[[], int] | None:
        """A count in the files that may hold some; None where no column is a float."""
        files = [(source, [name for name, dtype in source.columns if dtype.is_float()]) for source in self._whole(self.files())]
        return InfinitiesOfCsv(files) if any(floats for _, floats in files) else None


class CsvOutput(OutputFormat):
    """CSV with a header line in every file."""

    name = "csv"
    suffix = ".csv"
    separator: str = Field(",", min_length=1, max_length=1)
    null_value: str = Field("", description="How a missing value is written.")
    for_spreadsheets: bool = Field(
        False, description="Put ' before texts that begin as a formula does (= + - @); columns of numbers stay as they are."
    )

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
        frame = without_formulas(part.frame) if self.for_spreadsheets else part.frame
        frame.write_csv(path, separator=self.separator, null_value=self.null_value)

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        """The file's rows, with the types that are told; an empty text stays one, apart from a missing value."""
        nulls = self.null_value or None
        return pl.scan_csv(source, separator=self.separator, null_values=nulls, schema_overrides=dtypes, infer_schema_length=None)
