"""Files of random tables: what DuckDB writes we read as it does, and what we write it reads as we do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import polars as pl
from hypothesis import strategies as st

from pipeline.formats.csv import CsvInput, CsvOutput
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.testing.formats import read_table, write_table
from tests.differential.cases import check_all
from tests.differential.oracle import answer, assert_same, database
from tests.differential.tables import ANY, INTEGERS, tables

PARTS = (1, 2, 7)
TYPES = {"row": "int64", "key": "int64", "word": "string", "flag": "boolean", "ratio": "float64", "day": "date", "small": "int32"}
TYPES |= {name: name for name in INTEGERS}
WITHOUT_NAN = "select * replace (case when not isnan(wild) then wild end as wild) from rows"


@st.composite
def with_wild(draw: st.DrawFn, values: Sequence[float]) -> pl.DataFrame:
    """A table with a column of such floats."""
    rows = draw(tables())
    wild = [draw(st.sampled_from([*values, None, 1.5])) for _ in range(rows.height)]
    return rows.with_columns(wild=pl.Series(wild, dtype=pl.Float64))


def copied(rows: pl.DataFrame, path: Path, options: str) -> str:
    """The file that DuckDB writes of the table."""
    answer("select count(*) from rows", {"rows": rows})
    database().execute(f"copy rows to '{path}' ({options})")
    return str(path)


def check_parquet(values: Sequence[float], sql: str, folder: Path, *, shrink: bool = True) -> None:
    """Read DuckDB's Parquet, rows cut into parts, as SQL says."""
    number = count()

    def check(rows: pl.DataFrame) -> None:
        path = copied(rows, folder / f"{next(number)}.parquet", "format parquet, row_group_size 2048")
        for parts in PARTS:
            assert_same(read_table(ParquetInput.model_validate({"path": path, "parts": parts})).frame, answer(sql, {"rows": rows}))

    check_all(with_wild(values), check, shrink=shrink)


def test_parquet_of_duckdb__is_read_as_it_was_and_nan_is_null(tmp_path: Path) -> None:
    check_parquet([float("nan")], WITHOUT_NAN, tmp_path)


def test_parquet_of_duckdb__infinity_is_null(tmp_path: Path) -> None:
    check_parquet([float("inf"), float("-inf")], WITHOUT_NAN.replace("not isnan", "isfinite"), tmp_path, shrink=False)


def test_parquet_of_ours__is_read_by_duckdb_as_it_was(tmp_path: Path) -> None:
    number = count()

    def check(rows: pl.DataFrame) -> None:
        for parts in PARTS:
            folder = tmp_path / str(next(number))
            write_table(ParquetOutput(), rows, folder, parts)
            assert_same(answer(f"from '{folder}/*.parquet' order by \"row\"", {}), rows, ordered=True)

    check_all(tables(), check)


def read_of_csv(rows: pl.DataFrame, folder: Path, name: str) -> pl.DataFrame:
    """The table that we read from DuckDB's text, types stated."""
    path = copied(rows, folder / f"{name}.csv", "format csv, header")
    return read_table(CsvInput.model_validate({"path": path, "columns": TYPES, "parts": 2})).frame


def test_csv_of_duckdb__is_read_as_it_was(tmp_path: Path) -> None:
    number = count()

    def check(rows: pl.DataFrame) -> None:
        expected = answer("from rows", {"rows": rows})
        assert_same(read_of_csv(rows, tmp_path, str(next(number))), expected)

    check_all(tables(tuple(TYPES)[1:]), check)


def stated(types: Mapping[str, pl.DataType]) -> str:
    """The columns of a CSV file as DuckDB is told them."""
    words = {pl.String: "varchar", pl.Boolean: "boolean", pl.Float64: "double", pl.Date: "date", pl.Int8: "tinyint"}
    return ", ".join(f"'{name}': '{words.get(dtype.base_type(), str(dtype).lower())}'" for name, dtype in types.items())


def test_csv_of_ours__is_read_by_duckdb_as_it_was(tmp_path: Path) -> None:
    number = count()

    def check(rows: pl.DataFrame) -> None:
        folder = tmp_path / str(next(number))
        write_table(CsvOutput(), rows, folder, 2)
        options = (
            f"header = true, delim = ',', quote = '\"', escape = '\"', allow_quoted_nulls = false, columns = {{{stated(rows.schema)}}}"
        )
        assert_same(answer(f"from read_csv('{folder}/*.csv', {options})", {}), rows)

    check_all(tables([name for name in ANY if name in TYPES]), check)
