"""Parquet files whose columns differ are one table by their names, as DuckDB's union by name has them."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.formats.parquet import ParquetInput
from pipeline.testing.formats import assert_reads

COLUMNS: dict[str, pl.DataType] = {"k": pl.Int64(), "x": pl.Float64(), "t": pl.String(), "d": pl.Date(), "c": pl.List(pl.Int64())}


def drifting(folder: Path, seed: int) -> None:
    """Files of some of the columns, in any order, in several row groups."""
    chance = random.Random(seed)
    for number in range(chance.randrange(2, 5)):
        names = chance.sample(list(COLUMNS), chance.randrange(1, len(COLUMNS) + 1))
        rows = chance.randrange(0, 12)
        frame = pl.DataFrame({name: pl.Series(range(rows)).cast(pl.Int32) for name in names}, height=rows)
        made = [pl.concat_list(pl.col(name).cast(pl.Int64)) if name == "c" else pl.col(name).cast(COLUMNS[name]) for name in names]
        frame.with_columns(made).write_parquet(folder / f"{number}.parquet", row_group_size=chance.choice([1, 3, 100]))


@pytest.mark.parametrize("seed", range(12))
def test_parquet_input__takes_files_of_one_table_by_names(tmp_path: Path, seed: int) -> None:
    drifting(tmp_path, seed)
    known = duckdb.sql(f"from read_parquet('{tmp_path}/*.parquet', union_by_name = true)").pl()
    assert_reads(ParquetInput(path=(str(tmp_path),), missing="nulls"), known)


def test_parquet_input__takes_another_order_as_it_is(tmp_path: Path) -> None:
    pl.DataFrame({"k": [1], "t": ["x"]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"t": ["y"], "k": [2]}).write_parquet(tmp_path / "b.parquet")
    assert_reads(ParquetInput(path=(str(tmp_path),)), pl.DataFrame({"k": [1, 2], "t": ["x", "y"]}))


def test_parquet_input__has_folder_columns_beside_what_drifts(tmp_path: Path) -> None:
    for year, frame in ((2020, pl.DataFrame({"k": [1]})), (2021, pl.DataFrame({"k": [2], "x": [0.5]}))):
        (tmp_path / f"year={year}").mkdir()
        frame.write_parquet(tmp_path / f"year={year}/a.parquet")
    expected = pl.DataFrame({"k": [1, 2], "x": [None, 0.5], "year": [2020, 2021]})
    assert_reads(ParquetInput(path=(str(tmp_path),), missing="nulls"), expected)
    known = duckdb.sql(f"from read_parquet('{tmp_path}/**/*.parquet', union_by_name = true, hive_partitioning = true) order by k").pl()
    assert_frame_equal(known.select(expected.columns), expected)
