"""Folders KEY=VALUE make columns, as DuckDB reads them, or are refused with the reason; they are never dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import pipeline
from pipeline.errors import InputError
from pipeline.format import InputFormat
from pipeline.formats.csv import CsvInput
from pipeline.formats.gtf import GtfInput
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.steps import Step, evaluate
from tests.small import inside

READERS: dict[str, type[InputFormat]] = {"parquet": ParquetInput, "csv": CsvInput}


def written(folder: Path, kind: str) -> Path:
    """A table of two folder columns, as DuckDB writes it."""
    rows = "select i as k, 2019 + i % 3 as year, case when i % 2 = 0 then 'n/a b' else '007' end as code, i / 4 as x from range(40) t(i)"
    duckdb.sql(f"copy ({rows}) to '{folder}' (format {kind}, partition_by (year, code))")
    return folder


def read(reader: InputFormat) -> pl.DataFrame:
    parts = [evaluate(Step("read", "table", source=source), "cpu").frame for source in reader.sources(2)]
    whole = pl.concat(parts)
    assert whole.schema == reader.table_schema().columns
    return whole


@pytest.mark.parametrize("parts", [None, 1, 7])
@pytest.mark.parametrize("path", ["", "/", "/**/*", "/*/*/*", "/year=*/**/*.KIND"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_input__has_the_columns_of_its_folders(tmp_path: Path, kind: str, path: str, parts: int | None) -> None:
    folder = written(tmp_path / "table", kind)
    reader = READERS[kind].model_validate({"path": f"{folder}{path.replace('KIND', kind)}", "parts": parts})
    known = duckdb.sql(f"select k, x, year, code from read_{kind}('{folder}/**/*.{kind}', hive_partitioning = true) order by k").fetchall()
    for table in (reader, reader.pinned(), reader.pinned().absolute()):
        found = read(table)
        assert found.schema["year"] == pl.Int64()
        assert found.schema["code"] == pl.String()
        assert found.select("k", "x", "year", "code").sort("k").rows() == known


def test_input__of_one_folder_or_file_keeps_what_its_path_says(tmp_path: Path) -> None:
    folder = written(tmp_path / "table", "parquet")
    assert read(ParquetInput(path=(f"{folder}/year=2020",)))["year"].unique().to_list() == [2020]
    file = sorted(folder.rglob("year=2021/**/*.parquet"))[0]
    assert read(ParquetInput(path=(str(file),)))["year"].unique().to_list() == [2021]
    assert "year" not in read(ParquetInput(path=(str(file),), partitions={})).columns


@pytest.mark.parametrize(
    ("values", "stated", "result"),
    [
        (["1", "20"], {}, [1, 20]),
        (["01", "20"], {}, ["01", "20"]),
        (["2020-01-31", "__HIVE_DEFAULT_PARTITION__"], {}, ["2020-01-31", None]),
        (["1", "2"], {"key": "string"}, ["1", "2"]),
        (["1", "2"], {"key": "float64"}, [1.0, 2.0]),
        (["__HIVE_DEFAULT_PARTITION__", "false", "true"], {"key": "boolean"}, [None, "false", "true"]),
        (["a%2Fb", "c%20d"], {}, ["a/b", "c d"]),
    ],
)
def test_input__types_folder_columns_by_all_values(tmp_path: Path, values: list[str], stated: dict[str, str], result: list[Any]) -> None:
    for value in values:
        (tmp_path / f"key={value}").mkdir()
        pl.DataFrame({"x": [1]}).write_parquet(tmp_path / f"key={value}/a.parquet")
    found = read(ParquetInput.model_validate({"path": str(tmp_path), "partitions": stated or None}))["key"]
    assert sorted(found.cast(pl.String).to_list(), key=str) == sorted([None if one is None else str(one) for one in result], key=str)


def test_job__filters_by_a_folder_column_and_counts_its_rows(tmp_path: Path) -> None:
    written(tmp_path / "table", "parquet")
    (tmp_path / "job.yaml").write_text(
        "job: hive\nresults: results\ninputs:\n  rows: {format: parquet, path: table}\n"
        "stages:\n  - {use: filter, from: rows, as: some, where: year = 2020 and code = '007'}\noutputs:\n  all: {from: some}\n"
    )
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    known = duckdb.sql(f"select k from read_parquet('{tmp_path}/table/**/*.parquet') where year = 2020 and code = '007' order by k")
    assert run.table("all").to_polars()["k"].sort().to_list() == [row[0] for row in known.fetchall()]
    assert run.record["inputs"]["rows"]["rows"] == 40


def test_input__refuses_folders_that_do_not_fit(tmp_path: Path) -> None:
    folder = written(tmp_path / "table", "parquet")
    with pytest.raises(InputError, match=r"year=2019 is no date\. State another type in partitions, such as year: string"):
        read(ParquetInput(path=(str(folder),), partitions={"year": "date"}))
    pl.DataFrame({"k": [1], "x": [0.5]}).write_parquet(folder / "more.parquet")
    with pytest.raises(InputError, match=r"more\.parquet: lies in no folder year=VALUE, as others do"):
        ParquetInput(path=(str(folder),)).table_schema()
    (tmp_path / "own/x=1").mkdir(parents=True)
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "own/x=1/a.parquet")
    with pytest.raises(InputError, match=r"the file has a column 'x', and its folders make one of that name\. Say partitions: \{\}"):
        ParquetInput(path=(str(tmp_path / "own"),)).table_schema()
    assert read(ParquetInput(path=(str(tmp_path / "own"),), partitions={})).rows() == [(1,)]


def test_input__names_the_pattern_for_plain_folders_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "a/a.parquet")
    with pytest.raises(
        InputError, match=r"no file that ends in \.parquet or \.pq, and folders \(a\)\. A pattern reaches .*/\*\*/\*\.parquet"
    ):
        ParquetInput(path=(str(tmp_path),)).table_schema()


def test_input__of_a_format_without_folder_columns_refuses_them(tmp_path: Path) -> None:
    for name in ("chr=1", "chr=2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.gtf").write_text('1\ta\tgene\t1\t2\t.\t+\t.\tgene_id "g";\n')
    with pytest.raises(InputError, match=r"gtf files make no columns of folders KEY=VALUE, so what these say would be lost"):
        GtfInput(path=(str(tmp_path),)).table_schema()
