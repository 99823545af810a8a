"""Every query of TPC-H as it is written, by the stage sql, gives DuckDB's rows in its order, and so does every one of jobs/tpch.yaml."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline import api
from pipeline.stages.relational.sql import Sql
from pipeline.testing.stages import run_stage
from tests.differential.oracle import assert_same
from tests.small import inside
from tests.tpch.test_queries import HERE, QUERIES, SCALE, answered, write_tables

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables' files, amounts as decimals."""
    place = tmp_path_factory.mktemp("decimals")
    write_tables(place, SCALE, decimals=True)
    return place


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The shipped job on its own tables."""
    with inside(ROOT):
        return api.load("jobs/tpch.yaml", results=str(tmp_path_factory.mktemp("tpch")), cluster__dashboard=False).run()


@pytest.mark.parametrize("query", QUERIES)
def test_shipped_job__gives_duckdbs_rows(query: str, shipped: api.Run) -> None:
    with inside(ROOT / "data" / "tpch"):
        expected = answered(query)
    assert expected.height > 0
    assert_same(shipped.table(query).to_polars(), expected, ordered=True)


@pytest.mark.parametrize("query", QUERIES)
def test_query__gives_duckdbs_rows(query: str, folder: Path) -> None:
    with inside(folder):
        expected = answered(query)
        tables = {file.stem: pl.read_parquet(file) for file in Path().glob("*.parquet")}
    stage = Sql(query=(HERE / "sql" / f"{query}.sql").read_text())
    assert_same(run_stage(stage, tables, 2)[""], expected, ordered=True)
