"""Inputs that many stages read are decoded once, with the columns that somebody reads, where they fit; the numbers stay DuckDB's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.formats._parquet.source import ParquetSource
from pipeline.plan.needed import needed
from pipeline.plan.once import read_once
from pipeline.tables.table import Table

JOB = """
job: once
results: results
inputs:
  rows: {format: parquet, path: rows.parquet, parts: 3}
stages:
  - {use: filter, from: rows, as: some, where: x > 20}
  - {use: aggregate, from: some, as: sums, by: k, compute: {total: sum(x), y: sum(y)}}
  - {use: aggregate, from: rows, as: most, by: k, compute: {most: max(x), least: min(y)}}
  - use: sql
    from: rows
    as: above
    query: >-
      select k, count(*) as above from rows as r where exists (select * from rows as s where s.k = r.k and s.y < 0)
      and x > (select avg(x) from rows as s where s.k = r.k) group by k order by k
outputs:
  sums: {from: sums}
  most: {from: most}
  above: {from: above}
"""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pl.DataFrame:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)
    frame = pl.DataFrame(
        {"k": random.integers(0, 9, 3_000), "x": random.integers(0, 100, 3_000), "y": random.integers(-1, 50, 3_000)}
    ).with_columns(told=pl.lit("nobody reads this"))
    frame.write_parquet("rows.parquet", row_group_size=500)
    Path("job.yaml").write_text(JOB, encoding="utf-8")
    return frame


def held(**settings: Any) -> dict[str, int]:
    """What is read once by the job, with these settings."""
    plan = pipeline.load("job.yaml", **settings).plan()
    return read_once(plan, needed(plan, [stage.spec.name for stage in plan.stages], list(plan.job.outputs), []))


def run(**settings: Any) -> tuple[Any, int, list[list[str]]]:
    """The run, how often a range of the file was read at most, and the columns of the input each time that it was held."""
    loaded, given = Counter[str](), list[list[str]]()
    load, hold = ParquetSource.load, Table.hold

    def counted(self: ParquetSource) -> Any:
        loaded[repr(self)] += 1
        return load(self)

    def watched(self: Table) -> Table:
        if self.name == "rows" and self.schema:
            given.append(self.schema.columns.names())
        return hold(self)

    with patch.object(ParquetSource, "load", counted), patch.object(Table, "hold", watched):
        done = pipeline.load("job.yaml", **settings).run(fresh=True)
    return done, max(loaded.values()), given


@pytest.mark.usefixtures("rows")
def test_an_input__that_many_read_is_held_where_it_fits_and_tasks_share_a_memory() -> None:
    assert held() == {"rows": 3}
    assert held(cluster__table_memory="1MB") == {"rows": 3}
    assert held(cluster__table_memory="250kB") == {}  # 3,000 rows of 24 bytes are more than a quarter of it
    assert held(cluster__workers=2) == {}


def test_an_input__that_few_read_or_of_unknown_rows_is_not(rows: pl.DataFrame) -> None:
    Path("job.yaml").write_text(JOB.replace("x > (select avg(x) from rows as s where s.k = r.k)", "true").replace("exists", "not exists"))
    assert held() == {"rows": 3}
    Path("job.yaml").write_text(JOB[: JOB.index("  - use: sql")] + JOB[JOB.index("outputs:") : JOB.index("  above:")])
    assert held() == {}
    rows.write_csv("rows.csv")
    Path("job.yaml").write_text(JOB.replace("parquet", "csv"), encoding="utf-8")
    assert held() == {}


@pytest.mark.usefixtures("rows")
def test_a_held_input__is_read_once_with_what_is_needed_of_it_and_the_numbers_are_duckdbs() -> None:
    done, loaded, given = run()
    assert loaded == 1
    assert given == [["k", "x", "y"]]
    asked = {
        "sums": "select k, cast(sum(x) as bigint) as total, cast(sum(y) as bigint) as y from rows where x > 20 group by k order by k",
        "most": "select k, max(x) as most, min(y) as least from rows group by k order by k",
        "above": """select k, count(*) as above from rows as r where k in (select k from rows where y < 0)
            and x > (select avg(x) from rows as s where s.k = r.k) group by k order by k""",
    }
    for name, query in asked.items():
        assert_frame_equal(done.table(name).to_polars(), duckdb.sql(query.replace("rows", "'rows.parquet'")).pl(), check_dtypes=False)


@pytest.mark.usefixtures("rows")
def test_an_input__with_too_little_memory_is_read_by_each_of_its_readers() -> None:
    done, loaded, given = run(cluster__table_memory="250kB")
    assert loaded > 1
    assert not given
    assert done.table("most").to_polars().height == 9


@pytest.mark.usefixtures("rows")
def test_texts__that_turn_out_too_long_for_memory_are_not_held() -> None:
    rows = pl.DataFrame({"k": [f"{number % 9} {'x' * 2_000}" for number in range(4_000)], "x": range(4_000), "y": range(4_000)})
    rows.write_parquet("rows.parquet", row_group_size=500)
    Path("job.yaml").write_text(JOB[: JOB.index("  - use: sql")] + JOB[JOB.index("outputs:") : JOB.index("  above:")], encoding="utf-8")
    again = "  - {use: aggregate, from: rows, as: more, by: k, compute: {n: size(), y: sum(y), x: sum(x)}}\n"
    text = Path("job.yaml").read_text(encoding="utf-8")
    Path("job.yaml").write_text(text.replace("outputs:\n", f"{again}outputs:\n  more: {{from: more}}\n"), encoding="utf-8")
    assert held(cluster__table_memory="4MB") == {"rows": 3}
    done, loaded, given = run(cluster__table_memory="4MB")
    assert loaded > 2  # a sample, and every reader
    assert not given
    assert done.table("more").to_polars()["n"].sum() == 4_000


@pytest.mark.usefixtures("rows")
def test_explain__says_so(capsys: pytest.CaptureFixture[str]) -> None:
    from pipeline.run import main

    assert main(["job.yaml", "--explain"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("input"))
    assert line.endswith(", decoded once and held in memory for 3 readers")
