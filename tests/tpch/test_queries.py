"""Every query of TPC-H as a job gives DuckDB's rows, at scale 0.01."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from pipeline.api import load
from tests.differential.oracle import assert_same
from tests.small import inside, script

HERE = Path(__file__).parent
write_tables = script("data/make_tpch.py").write_tables
SCALE = 0.01
pytestmark = pytest.mark.long

QUERIES = sorted(path.stem for path in (HERE / "jobs").glob("*.yaml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables' files, amounts as floats."""
    place = tmp_path_factory.mktemp("tpch")
    write_tables(place, SCALE, decimals=False)
    return place


def answered(query: str) -> pl.DataFrame:
    """DuckDB's answer on the files of this folder."""
    with duckdb.connect() as connection:
        for file in Path().glob("*.parquet"):
            connection.execute(f"create view {file.stem} as from '{file}'")
        found = pl.from_arrow(connection.sql((HERE / "sql" / f"{query}.sql").read_text()).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def assert_answers(query: str, folder: Path) -> None:
    """Assert that the job gives DuckDB's rows, in its order."""
    with inside(folder):
        expected = answered(query)
        found = load(HERE / "jobs" / f"{query}.yaml").run().table("result").to_polars()
    assert expected.height > 0
    assert_same(found, expected, ordered=True)


def test_queries__are_all_there() -> None:
    assert [f"q{number:02}" for number in range(1, 23)] == QUERIES
    assert sorted(path.stem for path in (HERE / "sql").glob("*.sql")) == QUERIES


@pytest.mark.parametrize("query", QUERIES)
def test_query__gives_duckdbs_rows(query: str, folder: Path) -> None:
    assert_answers(query, folder)
