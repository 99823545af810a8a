"""Every query of TPC-H as it is written, by the stage sql, gives DuckDB's rows in its order."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline.stages.relational.sql import Sql
from pipeline.testing.stages import run_stage
from tests.differential.oracle import assert_same
from tests.small import inside
from tests.tpch.tables import write_tables
from tests.tpch.test_queries import HERE, QUERIES, SCALE, answered

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables' files, amounts as decimals."""
    place = tmp_path_factory.mktemp("decimals")
    write_tables(place, SCALE, decimals=True)
    return place


@pytest.mark.parametrize("query", QUERIES)
def test_query__gives_duckdbs_rows(query: str, folder: Path) -> None:
    with inside(folder):
        expected = answered(query)
        tables = {file.stem: pl.read_parquet(file) for file in Path().glob("*.parquet")}
    stage = Sql(query=(HERE / "sql" / f"{query}.sql").read_text())
    assert_same(run_stage(stage, tables, 2)[""], expected, ordered=True)
