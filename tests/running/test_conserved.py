"""Rows are conserved: where some are lost, at a union, a join, a split, an exchange, a write or a join of files, the run stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import RunError
from pipeline.format import JoinedOutput, Piece
from pipeline.formats.parquet import ParquetOutput
from pipeline.results.published import Result
from pipeline.running.writing import JoinTask, WriteTask, Written
from pipeline.stages.relational._part_join import PartJoin
from pipeline.stages.relational.expect import Expect
from pipeline.tables.conserved import compared
from pipeline.tables.measured import Measured
from pipeline.tables.part import Part, concat_parts
from pipeline.tables.table import Table
from tests.small import inside, last_record, run_main

JOB = """\
job: rows
cluster: auto
report: false
inputs:
  a: {format: csv, path: a.csv}
  b: {format: csv, path: b.csv}
stages:
  - {use: union, as: both, from: [a, b]}
  - {use: join, as: joined, from: {left: both, right: b}, on: id, how: HOW}
  - {use: expect, as: checked, from: joined, rules: {small: {check: range, column: id, max: 150, action: quarantine}}}
outputs:
  both: {from: both}
  joined: {from: joined}
  good: {from: checked}
  bad: {from: checked.quarantined}
"""


def write_job(folder: Path, how: str = "left") -> Path:
    for name, low in (("a", 0), ("b", 100)):
        pl.DataFrame({"id": range(low, low + 100)}).write_csv(folder / f"{name}.csv")
    (folder / "job.yaml").write_text(JOB.replace("HOW", how))
    return folder


def fewer(value: Any) -> Any:
    """A part, or a query, with a row less."""
    if isinstance(value, Part):
        return replace(value, held=value.frame.head(max(value.frame.height - 1, 0)))
    return value.slice(1) if isinstance(value, pl.LazyFrame) else value


def losing(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **options: fewer(method(*given, **options))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_rows__balance_in_a_job_that_loses_none(how: str, tmp_path: Path) -> None:
    with inside(write_job(tmp_path, how)):
        ended = run_main("job.yaml")
    assert ended.code == 0, ended.err


def lost_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of the tables of a union is forgotten."""
    monkeypatch.setattr(Table, "concat", lambda self, *_others: self.map(lambda rows: rows))


def lost_in_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartJoin, "__call__", losing(PartJoin.__call__))


ALL_KEPT = Expect._kept


def _kept(self: Expect, rows: pl.LazyFrame, *waits: Any) -> pl.LazyFrame:  # of the method's own name, by which it goes to workers
    return ALL_KEPT(self, rows, *waits).slice(1)


def lost_in_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expect, "_kept", _kept)


def lost_in_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_all(_self: ParquetOutput, part: Part, _axes: Mapping[str, pl.DataFrame], path: str) -> list[tuple[str, int]]:
        fewer(part).frame.write_parquet(path)
        return [(path, part.frame.height - 1)]

    monkeypatch.setattr(ParquetOutput, "write_all", write_all)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (lost_table, r"job\.yaml:8:5: stages\.both: union of its tables: 100 rows where there must be 200"),
        (lost_in_join, r"job\.yaml:9:5: stages\.joined: rows joined: 19\d rows where there must be 200"),
        (lost_in_split, r"job\.yaml:10:5: stages\.checked: rows that stay: \d+ rows where there must be 151"),
        (lost_in_write, r"rows were written of"),
    ],
)
def test_rows__that_are_lost_stop_the_run(
    plant: Callable[[pytest.MonkeyPatch], None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with inside(write_job(tmp_path)):
        ended = run_main("job.yaml")
        assert ended.code == 1, ended
        assert pl.Series([ended.err]).str.contains(message).item(), ended.err
        record = last_record(tmp_path / "results" / "rows")
    assert record["status"] == "failed"
    assert not (tmp_path / "results" / "rows" / "current").exists()


def test_rows__of_an_exchange_are_compared_over_all_parts() -> None:
    assert compared("exchange by id", [3, 4], [7, 0]) == Measured(0, 0, 0, {})
    with pytest.raises(RunError, match=r"exchange by id: 7 rows went in and 3 came out\. Nothing was published"):
        compared("exchange by id", [3, 4], [3])


def test_rows__of_parts_put_together_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    concat = pl.concat
    monkeypatch.setattr("pipeline.tables.part.pl.concat", lambda frames, **options: concat(frames, **options).head(3))
    with pytest.raises(RunError, match=r"2 parts of 4 rows together came to 3"):
        concat_parts([Part(pl.DataFrame({"a": [1, 2]}))] * 2)


def test_rows__of_pieces_are_all_joined() -> None:
    class Losing(JoinedOutput):
        def join(self, pieces: Any, axes: Any, stem: str) -> dict[str, int | None]:
            return {".tsv.gz": 3, ".tsv.gz-meta.yaml": None}

    written = [Written([], Piece(f"x{number}", {"tsv": 2, "json": 0}), Measured(2, 0, 1, {})) for number in range(2)]
    with pytest.raises(RunError, match=r"x\.tsv\.gz: 3 rows were joined of 4"):
        JoinTask(Losing(), "x", ())([], written)


def test_rows__that_are_read_back_are_those_of_the_manifest(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2]}).write_parquet(tmp_path / "x.parquet")
    result = Result("x", (str(tmp_path / "x.parquet"),), lambda source, _: pl.scan_parquet(source), 3)
    with pytest.raises(RunError, match=r"output 'x': its files hold 2 rows, and the manifest says 3"):
        result.to_polars()
    assert replace(result, rows=2).to_polars().height == 2


def test_write_tasks__know_their_rows(tmp_path: Path) -> None:
    task = WriteTask(ParquetOutput(), str(tmp_path / "x.parquet"), None, ())
    assert task(Part(pl.DataFrame({"a": [1, 2]})), ()).files[0][1] == 2
