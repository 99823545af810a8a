"""Bad rows in a job: their table as an output, their count in the record and on the terminal, and the end of a run with too many."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.small import current_run, inside, last_record, run_main

ROWS, BAD = 1000, (0, 17, 500, 999)
JOB = """\
job: sheet
cluster: {{kind: local, workers: {workers}}}
report: false
inputs:
  sheet: {{format: csv, path: sheet.csv, columns: {{id: int64}}, on_bad_rows: quarantine{more}}}
stages:
  - {{use: derive, as: doubled, from: sheet, columns: {{twice: id * 2}}}}
outputs:
  doubled: {{from: doubled}}
  bad: {{from: sheet.quarantined, format: csv}}
"""


def write_job(folder: Path, workers: int = 1, more: str = "") -> Path:
    lines = ["id,name", *(f"{'x' if number in BAD else number},n{number}" for number in range(ROWS))]
    (folder / "sheet.csv").write_text("\n".join(lines) + "\n")
    (folder / "job.yaml").write_text(JOB.format(workers=workers, more=more))
    return folder


@pytest.mark.parametrize("more", ["", ", parts: 5", ", max_bad_rows: 4", ", max_bad_rows: 0.004"])
def test_bad_rows__are_an_output_and_are_counted(more: str, tmp_path: Path) -> None:
    with inside(write_job(tmp_path, more=more)):
        ended = run_main("job.yaml", "--set", "cluster=auto")
    assert ended.code == 0, ended.err
    run = current_run(tmp_path / "results" / "sheet")
    bad = pl.read_csv(run / "bad" / "*.csv")
    assert bad["line"].to_list() == [number + 2 for number in BAD]
    assert bad["text"].to_list() == [f"x,n{number}" for number in BAD]
    assert bad["reason"].to_list() == ["column 'id' is Int64, and 'x' is none"] * len(BAD)
    assert bad["file"].str.ends_with("sheet.csv").all()
    rows = pl.read_parquet(run / "doubled")
    assert rows["id"].to_list() == [number for number in range(ROWS) if number not in BAD]
    record = json.loads((run / "run.json").read_text())
    assert record["inputs"]["sheet"]["counts"]["quarantined"] == len(BAD)
    said = "sheet: 4 of 1,000 rows are bad (0.4000%), and left out; the table sheet.quarantined has them"
    assert said in record["warnings"]
    assert said in ended.err + ended.out


@pytest.mark.parametrize(("more", "allowed"), [(", max_bad_rows: 3", "3"), (", max_bad_rows: 0.003, parts: 3", "0.3000%")])
def test_bad_rows__end_the_run_where_they_are_too_many(more: str, allowed: str, tmp_path: Path) -> None:
    with inside(write_job(tmp_path, more=more)):
        ended = run_main("job.yaml", "--set", "cluster=auto")
        assert ended.code == 1
        record = last_record(tmp_path / "results" / "sheet")
    said = f"4 of 1,000 rows are bad (0.4000%), and max_bad_rows allows {allowed}. Correct them, or allow more"
    assert f"job.yaml:5:10: inputs.sheet: {said}" in ended.err
    assert record["status"] == "failed"
    assert not (tmp_path / "results" / "sheet" / "current").exists()


@pytest.mark.process
def test_bad_rows__are_the_same_over_workers(tmp_path: Path) -> None:
    with inside(write_job(tmp_path, workers=2, more=", parts: 3")):
        ended = run_main("job.yaml")
    assert ended.code == 0, ended.err
    run = current_run(tmp_path / "results" / "sheet")
    assert pl.read_csv(run / "bad" / "*.csv")["line"].to_list() == [number + 2 for number in BAD]
    assert pl.read_parquet(run / "doubled").height == ROWS - len(BAD)


def test_bad_rows__are_a_table_only_where_the_job_asks_for_it(tmp_path: Path) -> None:
    with inside(write_job(tmp_path)):
        text = (tmp_path / "job.yaml").read_text()
        (tmp_path / "job.yaml").write_text(text.replace(", on_bad_rows: quarantine", ""))
        ended = run_main("job.yaml", "--set", "cluster=auto", "--check")
    assert ended.code == 2
    assert "there is no table 'sheet.quarantined'" in ended.err
