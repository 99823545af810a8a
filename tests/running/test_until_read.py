"""Tables leave a run when their last reader has them."""

from __future__ import annotations

import gc
from pathlib import Path

import polars as pl
import pytest

import pipeline
from pipeline.running.execute import Execution
from pipeline.running.until_read import UntilRead
from pipeline.tables.part import Part
from pipeline.tables.session import Session
from pipeline.tables.table import Table


def test_a_table__is_there_until_it_was_read_as_often_as_it_is_used() -> None:
    table = Table.of(Session(), "made", [Part(pl.DataFrame({"x": [1]}))])
    tables = UntilRead({"made": 3, "written": 2})
    tables["made"] = tables["written"] = tables["beside"] = table
    assert tables.read({"rows": "made"}) == {"rows": table}
    assert "made" in tables
    assert tables.read({"left": "made", "right": "made", "more": "written"}) == {"left": table, "right": table, "more": table}
    assert [*tables] == ["written", "beside"]


ROWS = 12_347
JOB = """\
job: readers
results: results
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: sort, from: rows, as: made, by: x}
  - {use: aggregate, from: made, as: added, by: g, compute: {x: sum(x)}}
  - {use: aggregate, from: made, as: counted, by: g, compute: {n: size()}}
outputs:
  added: {from: added}
  counted: {from: counted}
"""


def test_what_the_last_stage_reads__has_left_when_its_tasks_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of the run, which comes after, has the memory then."""
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"x": range(ROWS), "g": [1, 2, 3] * (ROWS // 3) + [1, 2]}).write_parquet("rows.parquet")
    Path("job.yaml").write_text(JOB)
    there, wait = list[int](), Execution._wait

    def frames() -> int:
        return sum(isinstance(one, pl.DataFrame) and one.height == ROWS for one in gc.get_objects())

    def waited(execution: Execution) -> None:
        wait(execution)
        there.append(frames())

    monkeypatch.setattr(Execution, "_wait", waited)
    pipeline.load("job.yaml").run()
    assert there == [0]
