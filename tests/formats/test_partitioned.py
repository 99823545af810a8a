"""Parquet written to folders KEY=VALUE: DuckDB and we read it as the table was, and a run publishes it so."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import JobError
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.tables.part import Part, Schema
from pipeline.testing.formats import assert_reads, read_table
from tests.small import inside

WORDS = ["a", "b/c", "d e", "ü=ß", "..", "%41", "__HIVE_DEFAULT_PARTITION__", "q\"'\\", None]
JOB = """\
job: folders
results: results
inputs:
  rows: {format: parquet, path: rows.parquet}
outputs:
  sorted: {from: rows, sort_by: [k], partition_by: [word, day]}
"""


def table(seed: int, rows: int = 60) -> pl.DataFrame:
    chance = random.Random(seed)
    words = [chance.choice(WORDS) for _ in range(rows)]
    days = [chance.choice([date(2020, 1, 31), date(2021, 2, 28), None]) for _ in range(rows)]
    flags = [chance.choice([True, False, None]) for _ in range(rows)]
    return pl.DataFrame(
        {"k": range(rows), "word": words, "day": days, "flag": flags, "small": [chance.choice([-7, 0, 100]) for _ in range(rows)]},
        schema={"k": pl.Int64, "word": pl.String, "day": pl.Date, "flag": pl.Boolean, "small": pl.Int8},
    )


@pytest.mark.parametrize("keys", [("word",), ("day", "flag"), ("small", "word")])
def test_parquet_output__writes_folders_that_duckdb_and_we_read(tmp_path: Path, keys: tuple[str, ...]) -> None:
    rows, folder = table(7), tmp_path / "table"
    for number in range(3):
        ParquetOutput(partition_by=keys).write_all(Part(rows[number * 20 : number * 20 + 20]), {}, f"{folder}/part-{number}.parquet")
    types = {"word": "string", "day": "date", "flag": "boolean", "small": "int8"}
    reader = ParquetInput.model_validate({"path": str(folder), "partitions": {key: types[key] for key in keys}})
    own = [name for name in rows.columns if name not in keys]
    found = read_table(reader).frame
    assert_frame_equal(found.sort("k").select(rows.columns), rows)
    assert found.columns == [*own, *keys]
    names = {"string": "varchar", "int8": "tinyint"}
    hive = ", ".join(f"{key}: {names.get(types[key], types[key])}" for key in keys)
    sql = f"from read_parquet('{folder}/**/*.parquet', hive_partitioning = true, hive_types = {{{hive}}}) order by k"
    known = duckdb.sql(f"select {', '.join(rows.columns)} {sql}").fetchall()
    assert known == rows.rows()


def test_parquet_output__of_no_rows_still_says_its_columns(tmp_path: Path) -> None:
    files = ParquetOutput(partition_by=("word",)).write_all(Part(table(7, 0)), {}, f"{tmp_path}/part.parquet")
    assert files == [(f"{tmp_path}/word=__HIVE_DEFAULT_PARTITION__/part.parquet", 0)]
    assert_reads(ParquetInput(path=(str(tmp_path),)), table(7, 0).select("k", "day", "flag", "small", "word"))


@pytest.mark.parametrize("rows", [60, 0])
def test_job__publishes_folders_and_reads_them_back(tmp_path: Path, rows: int) -> None:
    table(11, rows).write_parquet(tmp_path / "rows.parquet", row_group_size=10)
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
        found = run.table("sorted").to_polars()
        assert_frame_equal(found.sort("k").select(table(11, rows).columns), table(11, rows))
        inputs = {"rows": {"format": "parquet", "path": "results/current/sorted", "partitions": {"word": "string", "day": "date"}}}
        again = pipeline.load("job.yaml", results="again", inputs=inputs).run()
        assert_frame_equal(again.table("sorted").to_polars().select(found.columns), found)
        assert run.table("sorted").to_dask().compute().shape == found.shape
    assert all("word=" in path and "/day=" in path for path in run.table("sorted").paths)
    assert "could not be read" not in Path(run.report).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("wort",), r"partition_by names 'wort', which is no column that is written\. Did you mean 'word'"),
        (("x",), r"partition_by names 'x', which is Float64\. Folders are made of texts, whole numbers, booleans and dates"),
        (("word", "x"), r"partition_by names 'x', which is Float64"),
    ],
)
def test_parquet_output__refuses_what_no_folder_says(keys: tuple[str, ...], message: str) -> None:
    schema = Schema(pl.Schema({"word": pl.String(), "x": pl.Float64()}))
    with pytest.raises(JobError, match=message):
        ParquetOutput(partition_by=keys).check(schema, ["word", "x"])
    with pytest.raises(JobError, match="partition_by names every column, so that the files would have none"):
        ParquetOutput(partition_by=("word",)).check(schema, ["word"])
    with pytest.raises(JobError, match="genotypes are not written to folders"):
        ParquetOutput(partition_by=("word",), calls=True).check(schema, ["word", "x"])
