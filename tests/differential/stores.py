"""Random tables as files: Parquet in several row groups and files, folders KEY=VALUE, CSV; how we read them, and how DuckDB does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
from hypothesis import strategies as st

from pipeline.format import InputFormat
from pipeline.formats.csv import CsvInput
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.dtypes import DTYPES
from pipeline.testing.stages import even_sizes
from tests.differential.oracle import answer, copy, quoted
from tests.differential.tables import INTEGERS, some

WORDS = {pl.String: "varchar", pl.Boolean: "boolean", pl.Float64: "double", pl.Date: "date", pl.Int8: "tinyint"}
STATED = {"row": "int64", "key": "int64", "word": "string", "flag": "boolean", "ratio": "float64", "day": "date", "small": "int32"}
STATED |= {"code": "string", **{name: name for name in INTEGERS}}
IN_TEXT = tuple(name for name in STATED if name != "row")  # columns that CSV files can hold, types stated
FILES = st.sampled_from([1, 2, 3, 12])
FOLDERS = ("key", "word", "flag", "day", "int8", "code", "code")


@dataclass(frozen=True)
class Stored:
    """Files, as we read them and as DuckDB does."""

    reader: InputFormat
    sql: str


@dataclass(frozen=True)
class ParquetStore:
    """Files of so many rows, in row groups of so many, by one of three writers, the rows ordered by a column where one is given."""

    writer: str
    files: int
    group: int
    by: str = ""

    def write(self, table: pl.DataFrame, folder: Path) -> Stored:
        """Write the table into a folder, which is made."""
        folder.mkdir(parents=True)
        rows, first = (table.sort(self.by, nulls_last=True) if self.by else table), 0
        for number, size in enumerate(even_sizes(table.height, self.files)):
            self._write(rows[first : first + size], f"{folder}/{number:03d}.parquet")
            first += size
        return Stored(ParquetInput.model_validate({"path": str(folder)}), f"select * from read_parquet('{folder}/*.parquet')")

    def schema(self, table: pl.DataFrame) -> pl.Schema:
        """The columns that are read."""
        return table.schema

    def _write(self, rows: pl.DataFrame, path: str) -> None:
        if self.writer == "polars":
            rows.write_parquet(path, row_group_size=self.group)
        elif self.writer == "pyarrow":
            pq.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()), path, row_group_size=self.group)
        else:
            copy(rows, path, "format parquet")


@dataclass(frozen=True)
class HiveStore:
    """Parquet or CSV in folders KEY=VALUE, as DuckDB writes them; `stated` where their types are told, not found in the texts."""

    keys: tuple[str, ...]
    format: str
    stated: bool

    def types(self, table: pl.DataFrame) -> dict[str, str]:
        """The types of the folders' columns."""
        return {key: STATED[key] if self.stated else folder_type(table[key]) for key in self.keys}

    def schema(self, table: pl.DataFrame) -> pl.Schema:
        """The columns that are read: those of the folders come last."""
        own = {name: dtype for name, dtype in table.schema.items() if name not in self.keys}
        return pl.Schema({**own, **{name: DTYPES[dtype] for name, dtype in self.types(table).items()}})

    def write(self, table: pl.DataFrame, folder: Path) -> Stored:
        """Write the table into a folder, which is made. A table of no rows has no folders, and one row is added."""
        rows = table if table.height else table.clear(1)
        copy(rows, str(folder), f"format {self.format}, partition_by ({', '.join(map(quoted, self.keys))})")
        types = self.types(rows)
        named = ", ".join(f"{quoted(name)}: {'varchar' if dtype == 'string' else sql_type(dtype)}" for name, dtype in types.items())
        own = [name for name in rows.columns if name not in types]
        files = f"'{folder}/**/*.{self.format}', hive_partitioning = true, hive_types = {{{named}}}"
        settings: dict[str, Any] = {"path": str(folder), **({"partitions": types} if self.stated else {})}
        if self.format == "csv":
            settings |= {"columns": {name: STATED[name] for name in own}}
            source = f"read_csv({files}, {reading(rows.select(own), ',', ())})"
            return Stored(CsvInput.model_validate(settings), f"select {', '.join(map(quoted, [*own, *types]))} from {source}")
        return Stored(ParquetInput.model_validate(settings), f"select {', '.join(map(quoted, [*own, *types]))} from read_parquet({files})")


@dataclass(frozen=True)
class CsvStore:
    """Text of some separator and way to write what is missing, quotes where they must be or everywhere, packed or not, in some files."""

    separator: str = ","
    null: str = ""
    quoting: bool = False
    packed: str = ""
    files: int = 1

    def schema(self, table: pl.DataFrame) -> pl.Schema:
        """The columns that are read."""
        return table.schema

    def write(self, table: pl.DataFrame, folder: Path) -> Stored:
        """Write the table into a folder, which is made."""
        folder.mkdir(parents=True)
        options = ["format csv", "header", f"delimiter '{self.separator}'", f"nullstr '{self.null}'"]
        texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
        options += [f"force_quote ({', '.join(map(quoted, texts))})"] if self.quoting and texts else []
        options += [f"compression {'gzip' if self.packed == '.gz' else 'zstd'}"] if self.packed else []
        first = 0
        for number, size in enumerate(even_sizes(table.height, self.files)):
            copy(table[first : first + size], f"{folder}/{number:03d}.csv{self.packed}", ", ".join(options))
            first += size
        nulls = (self.null,) if self.null else ()
        settings: dict[str, Any] = {"path": str(folder), "separator": self.separator, "null_values": nulls}
        settings["columns"] = {name: STATED[name] for name in table.columns}
        sql = f"select * from read_csv('{folder}/*.csv{self.packed}', {reading(table, self.separator, nulls)})"
        return Stored(CsvInput.model_validate(settings), sql)


Store = ParquetStore | HiveStore | CsvStore


def folder_type(values: pl.Series) -> str:
    """The type that a column of folders has by docs: int64 where all texts are such numbers, date, else string."""
    texts = values.drop_nulls().cast(pl.String).to_list() if values.dtype != pl.Boolean else ["true"]
    if texts and all(text.isascii() and text.lstrip("-").isdigit() and str(int(text)) == text for text in texts):
        return "int64"
    return "date" if texts and values.dtype == pl.Date else "string"


def sql_type(dtype: str) -> str:
    """A type that the pipeline names, in DuckDB's words."""
    return {"string": "varchar", "float64": "double", "int8": "tinyint"}.get(dtype, dtype)


def stated(types: Mapping[str, pl.DataType]) -> str:
    """The columns of a CSV file as DuckDB is told them."""
    return ", ".join(f"'{name}': '{WORDS.get(dtype.base_type(), str(dtype).lower())}'" for name, dtype in types.items())


def reading(table: pl.DataFrame, separator: str, nulls: Sequence[str]) -> str:
    """The options by which DuckDB reads text of such a table, guessing nothing."""
    texts = ", ".join(f"'{text}'" for text in ["", *nulls])
    rules = f"header = true, delim = '{separator}', quote = '\"', escape = '\"', allow_quoted_nulls = false, nullstr = [{texts}]"
    return f"{rules}, auto_detect = false, parallel = false, columns = {{{stated(table.schema)}}}"


def parquet_stores(by: Sequence[str] = ("", "row", "key")) -> st.SearchStrategy[ParquetStore]:
    """Parquet of one to twelve files, row groups of one to many rows."""
    groups = st.sampled_from([1, 3, 8, 100])
    return st.builds(ParquetStore, st.sampled_from(["polars", "pyarrow", "duckdb"]), FILES, groups, st.sampled_from(list(by)))


def parquet_in_groups() -> st.SearchStrategy[ParquetStore]:
    """Parquet of many row groups, so that each part has footers of its own."""
    return st.builds(ParquetStore, st.sampled_from(["polars", "pyarrow"]), FILES, st.sampled_from([1, 2, 3]))


def csv_stores() -> st.SearchStrategy[CsvStore]:
    """Text of any of those ways."""
    options = (st.sampled_from(",;\t|"), st.sampled_from(["", "NA", "N/A", "\\N"]), st.booleans(), st.sampled_from(["", "", ".gz", ".zst"]))
    return st.builds(CsvStore, *options, st.sampled_from([1, 1, 3]))


def hive_stores(formats: Sequence[str] = ("parquet", "csv"), keys: Sequence[str] = FOLDERS) -> st.SearchStrategy[HiveStore]:
    """Folders by one or two columns."""
    by = some(keys, most=2).map(tuple)
    return st.builds(HiveStore, by, st.sampled_from(list(formats)), st.booleans())


def read(stored: Stored) -> pl.DataFrame:
    """What DuckDB reads."""
    return answer(stored.sql, {})
