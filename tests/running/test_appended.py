"""Outputs that runs append to: what was published stays as it is, whichever runs go, and another table is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import polars as pl
import pytest

import pipeline
from pipeline.errors import PlaceError, RunError
from pipeline.results.manifest import read_current, verify
from pipeline.results.publish import Results
from pipeline.results.published import Run
from tests.small import inside

JOB = """\
job: grow
results: results
inputs:
  rows: {format: parquet, path: rows.parquet}
outputs:
  all: {from: rows, append: true}
  last: {from: rows}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a job, which the test works in."""
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        yield tmp_path


def day(number: int, rows: int = 3) -> list[tuple[int, str]]:
    return [(10 * number + row, f"day {number}") for row in range(rows)]


def run(number: int, rows: int = 3, **overrides: Any) -> Run:
    pl.DataFrame(day(number, rows), schema={"k": pl.Int64, "t": pl.String}, orient="row").write_parquet("rows.parquet", row_group_size=2)
    return pipeline.load("job.yaml", **overrides).run()


def stamps(path: str) -> dict[str, tuple[int, int, bytes]]:
    """Every file of a run's folder as it is."""
    return {str(file): (file.stat().st_ino, file.stat().st_mtime_ns, file.read_bytes()) for file in Path(path).rglob("*") if file.is_file()}


@pytest.mark.usefixtures("folder")
def test_append__publishes_what_was_there_and_its_own() -> None:
    first = run(1)
    before = stamps(first.path)
    second = run(2, inputs__rows__parts=2)
    third = run(3, rows=0)
    fourth = run(4)
    assert stamps(first.path) == before
    assert first.table("all").to_polars().rows() == day(1)
    assert second.table("all").to_polars().rows() == day(1) + day(2)
    assert third.table("all").to_polars().rows() == day(1) + day(2)
    assert fourth.table("all").to_polars().rows() == day(1) + day(2) + day(4)
    assert fourth.table("last").to_polars().rows() == day(4)
    assert fourth.record["outputs"]["all"]["appended_to"] == {"run": third.view.id, "files": 4, "rows": 6}
    assert verify(fourth.path) == []
    for old in (first, second, third):
        shutil.rmtree(old.path)
    assert duckdb.sql("select * from 'results/current/all/*.parquet' order by k").fetchall() == day(1) + day(2) + day(4)
    assert verify(fourth.path) == []


def test_append__to_folders_by_columns(folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("append: true", "append: true, partition_by: [t]"))
    run(1)
    found = run(2).table("all").to_polars()
    assert found.rows() == day(1) + day(2)
    assert found.columns == ["k", "t"]
    with pytest.raises(PlaceError, match=r"results: output all is there with other settings .*partition_by.* Give the output another name"):
        run(3, outputs={"all": {"from": "rows", "append": True}})


@pytest.mark.usefixtures("folder")
def test_append__of_a_failed_run_leaves_what_was_published(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(1)
    monkeypatch.setattr("pipeline.results.store.LocalStore.share", _refuse)
    before = stamps(first.path)
    with pytest.raises(RunError, match=r"the file of run .* could not be kept \(disk full\)\. Run again"):
        run(2)
    assert stamps(first.path) == before
    assert pipeline.open_run("results").table("all").to_polars().rows() == day(1)


def _refuse(*_: object) -> None:
    raise OSError("disk full")


@pytest.mark.usefixtures("folder")
def test_append__copies_where_there_are_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "hardlink_to", _refuse)
    first = run(1)
    second = run(2)
    shutil.rmtree(first.path)
    assert second.table("all").to_polars().rows() == day(1) + day(2)


@pytest.mark.usefixtures("folder")
def test_append__at_a_url() -> None:
    try:
        run(1, results="memory://grow/results")
        found = run(2, results="memory://grow/results")
        assert found.table("all").to_polars().rows() == day(1) + day(2)
        assert verify(found.path) == []
    finally:
        fsspec.filesystem("memory").rm("/grow", recursive=True)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"all": {"from": "rows", "append": True, "format": "csv"}}, r"output all is there with other format \(parquet\) than .* \(csv\)"),
        ({"all": {"from": "rows", "append": True, "columns": ["t", "k"]}}, r"output all is there with other columns .* append: false once"),
        ({"all": {"from": "rows", "append": True, "columns": ["k"]}}, r"output all is there with other columns .* append: false once"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_append__refuses_another_table_before_anything_runs(outputs: dict[str, Any], message: str) -> None:
    first = run(1)
    for act in (lambda: run(2, outputs=outputs), lambda: pipeline.load("job.yaml", outputs=outputs).plan()):
        with pytest.raises(PlaceError, match=message):
            act()
    assert [name.name for name in Path("results/runs").iterdir()] == [first.view.id]
    assert run(2, outputs={"all": outputs["all"] | {"append": False}}).view.id


@pytest.mark.usefixtures("folder")
def test_append__takes_another_compression() -> None:
    run(1)
    assert run(2, outputs__all__compression="snappy").table("all").to_polars().rows() == day(1) + day(2)


def test_retention__leaves_the_files_that_a_later_run_has(tmp_path: Path) -> None:
    place, kept = str(tmp_path / "results"), list[str]()
    for number in range(4):
        with Results(place, keep=0).open_run() as writer:
            if view := read_current(place):
                writer.keep(view.id, [entry for entry in view.files if entry.path.startswith("table/")])
            name = f"table/{number}.csv"
            kept.append(name)
            writer.write_bytes(name, str(number).encode())
            writer.write_json("run.json", {})
            writer.commit()
    view = read_current(place)
    assert view is not None
    assert [Path(path).read_text() for path in view.paths("table")] == ["0", "1", "2", "3"]
    assert verify(view.path) == []
    assert [name.name for name in (tmp_path / "results/runs").iterdir()] == [view.id]
    assert {item["path"] for item in json.loads(Path(view.path, "manifest.json").read_text())["files"]} >= set(kept)
