"""Random files: what DuckDB writes we read as it does, what we write it reads as we do, and short rows are filled, or refused by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from hypothesis import strategies as st

from pipeline.errors import DataError
from pipeline.format import InputFormat, OutputFormat
from pipeline.formats.arrow import ArrowInput, ArrowOutput
from pipeline.formats.avro import AvroInput, AvroOutput
from pipeline.formats.csv import CsvInput, CsvOutput
from pipeline.formats.jsonl import JsonlInput, JsonlOutput
from pipeline.formats.orc import OrcInput, OrcOutput
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.testing.formats import read_table, write_table
from tests.differential.cases import TALLY
from tests.differential.oracle import answer, assert_same
from tests.differential.stores import IN_TEXT, STATED, Store, Stored, csv_stores, hive_stores, parquet_stores, reading
from tests.differential.tables import ANY, tables

PARTS = st.sampled_from([1, 2, 7])
WAYS = {"parquet": st.tuples(parquet_stores(), tables()), "csv": st.tuples(csv_stores(), tables(IN_TEXT))}
WAYS |= {"hive": st.tuples(hive_stores(["parquet"]), tables()), "hive of csv": st.tuples(hive_stores(["csv"]), tables(IN_TEXT))}

KEEPERS: dict[str, tuple[OutputFormat, type[InputFormat], Sequence[str], bool]] = {
    "arrow": (ArrowOutput(), ArrowInput, ANY, False),
    "avro": (AvroOutput(), AvroInput, [name for name in ANY if name != "uint64"], False),
    "jsonl": (JsonlOutput(), JsonlInput, IN_TEXT, True),
    "orc": (OrcOutput(), OrcInput, [name for name in ANY if not name.startswith("uint")], False),
}


def _counted(table: pl.DataFrame) -> None:
    TALLY["tables"] += 1
    TALLY["cells"] += table.height * table.width


@dataclass(frozen=True)
class Read:
    """Files of a table, read in so many parts."""

    store: Store
    table: pl.DataFrame
    parts: int

    def check(self) -> None:
        """Assert that we read what DuckDB does, and all rows."""
        with TemporaryDirectory() as folder:
            files = self.store.write(self.table, Path(folder) / "table")
            expected = answer(files.sql, {})
            assert expected.height == self.table.height or not self.table.height
            assert_same(read_table(files.reader.model_copy(update={"parts": self.parts})).frame, expected)
            _counted(expected)


@dataclass(frozen=True)
class Wild:
    """A column with NaN or infinities, in Parquet of several row groups."""

    read: Read
    values: tuple[float | None, ...]

    def check(self) -> None:
        """Assert that NaN and infinities are null, and everything else as it was."""
        height = self.read.table.height
        wild = pl.Series("wild", (self.values * height)[:height], dtype=pl.Float64)
        with TemporaryDirectory() as folder:
            files = self.read.store.write(self.read.table.with_columns(wild), Path(folder) / "table")
            sql = f"select * replace (case when isfinite(wild) then wild end as wild) from ({files.sql})"
            expected = answer(sql, {})
            assert_same(read_table(files.reader.model_copy(update={"parts": self.read.parts})).frame, expected)
            _counted(expected)


@dataclass(frozen=True)
class RoundTrip:
    """A table written by us and read again, in one format after the other, each in so many parts."""

    table: pl.DataFrame
    formats: tuple[ParquetOutput | CsvOutput, ...]
    parts: int

    def check(self) -> None:
        """Assert that DuckDB and we read the last files as the table was."""
        rows = self.table
        with TemporaryDirectory() as folder:
            for number, writer in enumerate(self.formats):
                files = self._written(writer, rows, Path(folder) / str(number))
                rows = read_table(files.reader.model_copy(update={"parts": self.parts})).frame
            assert_same(answer(files.sql, {}), self.table)
        assert_same(rows, self.table, ordered=True)
        _counted(rows)

    def _written(self, writer: ParquetOutput | CsvOutput, rows: pl.DataFrame, folder: Path) -> Stored:
        write_table(writer, rows, folder, self.parts)
        if isinstance(writer, ParquetOutput):
            return Stored(ParquetInput.model_validate({"path": str(folder)}), f"select * from read_parquet('{folder}/*.parquet')")
        nulls = [writer.null_value] if writer.null_value else []
        settings: dict[str, Any] = {"path": str(folder), "separator": writer.separator, "null_values": nulls}
        settings["columns"] = {name: STATED[name] for name in rows.columns}
        return Stored(CsvInput.model_validate(settings), f"from read_csv('{folder}/*.csv', {reading(rows, writer.separator, nulls)})")


@dataclass(frozen=True)
class Kept:
    """A table in a format that keeps its types, written by us in so many parts and read in as many."""

    table: pl.DataFrame
    writer: OutputFormat
    reader: type[InputFormat]
    parts: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Assert that it comes back as it was, by our reader and by what the report reads."""
        with TemporaryDirectory() as folder:
            files = write_table(self.writer, self.table, Path(folder) / "table", self.parts)
            filled = [file for file in files if file.stat().st_size]
            settings = {"path": [str(file) for file in filled], "parts": self.parts, **self.settings}
            found = read_table(self.reader.model_validate(settings)).frame if filled else self.table
            again = [self.writer.scan(str(file), "", self.table.schema) for file in files]
            whole = pl.concat([rows for rows in again if rows is not None]).collect()
        assert_same(found.cast(self.table.schema), self.table, ordered=True)  # whole numbers and times may be wider in the file
        assert_same(whole, self.table, ordered=True)
        _counted(self.table)


@dataclass(frozen=True)
class ShortRows:
    """Rows of text, some with fewer fields than there are columns, some with quotes, separators and line ends within."""

    rows: Sequence[Sequence[str]]
    parts: int

    def check(self) -> None:
        """Assert that short rows are filled and counted as DuckDB fills them, or refused by the line of the first."""
        short = [number for number, row in enumerate(self.rows) if len(row) < 4]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            lines = ["a,b,c,d", *(",".join(row) for row in self.rows)]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            settings = {"path": str(path), "parts": self.parts, "columns": {"a": "int64", "b": "string", "c": "string", "d": "string"}}
            types = pl.DataFrame(schema={"a": pl.Int64, "b": pl.String, "c": pl.String, "d": pl.String})
            expected = answer(f"from read_csv('{path}', {reading(types, ',', ['NA'])}, null_padding = true)", {})
            found = read_table(CsvInput.model_validate({**settings, "short_rows": "fill"}))
            assert_same(found.frame, expected)
            assert found.counts.get("tested:short_rows", 0) == len(short), f"{found.counts}, and {len(short)} rows are short"
            refused = self._refusal(CsvInput.model_validate(settings))
        line = 2 + "\n".join(lines[1 : 1 + short[0]]).count("\n") + (short[0] > 0) if short else 0
        assert (f"{path}:{line}: " in refused) if short else refused == "", f"{refused}: line {line} is the first"
        _counted(expected)

    def _refusal(self, reader: CsvInput) -> str:
        try:
            read_table(reader)
        except DataError as error:
            return str(error)
        return ""


FIELDS = st.sampled_from(["", '""', "x", "7", "007", "NA", '"a,b"', '"q""r"', '"x\ny"', " y ", "é日"])


@st.composite
def short_rows(draw: st.DrawFn) -> ShortRows:
    """Up to twenty rows, none of them short in one file of three."""
    most = draw(st.integers(0, 20))
    sizes = st.sampled_from([3, 3, 3, 3, 3, 2, 1, 0] if draw(st.integers(0, 2)) else [3])
    rows = [[str(number), *(draw(FIELDS) for _ in range(draw(sizes)))] for number in range(most)]
    return ShortRows(rows, draw(PARTS))


@st.composite
def round_trips(draw: st.DrawFn) -> RoundTrip:
    """One to three formats: Parquet, and CSV of any separator and way to write what is missing."""
    csv = st.builds(CsvOutput, separator=st.sampled_from(",;\t|"), null_value=st.sampled_from(["", "NA", "N/A"]))
    formats = draw(st.lists(csv | st.just(ParquetOutput()), min_size=1, max_size=3))
    return RoundTrip(draw(tables(IN_TEXT)), tuple(formats), draw(PARTS))


@st.composite
def kept(draw: st.DrawFn, name: str) -> Kept:
    """One of the formats that keep types."""
    writer, reader, columns, settings = KEEPERS[name]
    table = draw(tables(columns))
    stated = {"columns": {column: STATED[column] for column in table.columns}} if settings else {}
    return Kept(table, writer, reader, draw(PARTS), stated)


def reads(way: str) -> st.SearchStrategy[Read]:
    """Files of one of WAYS."""
    return st.builds(lambda pair, parts: Read(pair[0], pair[1], parts), WAYS[way], PARTS)


@st.composite
def wild(draw: st.DrawFn) -> Wild:
    """Parquet with NaN, infinities, or both."""
    values = st.sampled_from([float("nan"), float("inf"), float("-inf"), 1.5, None, -0.0])
    return Wild(draw(reads("parquet")), tuple(draw(st.lists(values, min_size=1, max_size=7))))


FILES: dict[str, st.SearchStrategy[Any]] = {
    **{f"files read: {way}": reads(way) for way in WAYS},
    "files read: infinities": wild(),
    "files written and read": round_trips(),
    **{f"files kept: {name}": kept(name) for name in KEEPERS},
    "files with short rows": short_rows(),
}
