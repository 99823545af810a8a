"""delta: a version of a table as DuckDB's and deltalake's readers have it, and one commit once a run is published."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from polars.testing import assert_frame_equal

import pipeline
from pipeline.errors import DataError, InputError, JobError, PlaceError, RunError
from pipeline.formats._lakes import Versioned
from pipeline.formats.delta import DeltaInput, DeltaOutput
from pipeline.tables.part import Schema
from pipeline.testing.formats import assert_reads
from tests.formats.of_lakes import FRAME as OF_ALL_TYPES
from tests.formats.of_lakes import commit, plain
from tests.small import inside

FRAME = pl.DataFrame(
    {
        "k": [1, 2, None],
        "t": ["a", None, "b"],
        "x": [1.5, None, -0.0],
        "d": [date(2020, 1, 31), None, date(1969, 12, 31)],
        "p": [Decimal("1.50"), None, Decimal("-2.25")],
        "l": [[1], None, []],
        "s": [{"a": 1}, None, {"a": None}],
        "z": pl.Series([datetime(2021, 3, 28, 1, 30, tzinfo=UTC), None, None], dtype=pl.Datetime("us", "UTC")),
    }
)
JOB = """\
job: lake
results: results
inputs:
  rows: {format: delta, path: source}
outputs:
  all: {from: rows, format: delta, location: target, mode: append}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a job and a table of two versions, which the test works in."""
    (tmp_path / "job.yaml").write_text(JOB)
    with inside(tmp_path):
        write_deltalake("source", FRAME.to_arrow(), partition_by=["t"])
        write_deltalake("source", FRAME.head(1).to_arrow(), mode="append")
        yield tmp_path


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.to_dicts(), key=str)


def target() -> pl.DataFrame:
    """The table as deltalake's own engine reads it."""
    found = pl.from_arrow(DeltaTable("target").to_pyarrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


@pytest.mark.usefixtures("folder")
def test_delta_input__reads_a_version_in_any_parts() -> None:
    first, newest = (DeltaInput(path=("source",), version=version) for version in (0, None))
    for reader, height in ((first, 3), (newest, 4), (newest.pinned(), 4)):
        found = pl.concat([source.load().collect() for source in reader.sources(2)])
        known = pl.from_arrow(DeltaTable("source", version=reader.version).to_pyarrow_table())
        assert rows_of(found) == rows_of(known)
        assert found.height == height
        assert_reads(reader, found)
    assert newest.pinned().version == 1
    read, last = newest.pinned().model_copy(update={"parts": 2}).sources(2)
    assert read.rows == last.rows == 2
    with pytest.raises(
        DataError, match=r"source: the files of the version come in another order than when the job was planned\. Run again"
    ):
        Versioned(read.read, lambda _: [], "another").__call__("source")
    assert first.content()


@pytest.mark.usefixtures("folder")
def test_job__commits_once_it_is_published_and_names_the_version_that_it_read() -> None:
    first = pipeline.load("job.yaml").run()
    assert first.record["inputs"]["rows"]["version"] == 1
    assert rows_of(target()) == rows_of(first.table("all").to_polars())
    write_deltalake("source", FRAME.head(2).to_arrow(), mode="append")
    again = pipeline.load("job.yaml", inputs__rows__version=1, inputs__rows__parts=3).run()
    assert_frame_equal(again.table("all").to_polars(), first.table("all").to_polars())
    assert DeltaTable("target").version() == 1
    assert DeltaTable("target").history(1)[0]["run"] == again.view.id
    assert target().height == 8
    pipeline.load("job.yaml", outputs__all__mode="overwrite").run()
    assert (DeltaTable("target").version(), target().height) == (2, 6)
    assert rows_of(pl.scan_delta("target", version=0).collect()) == rows_of(first.table("all").to_polars())


@pytest.mark.usefixtures("folder")
def test_job__that_fails_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.load("job.yaml").run()
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.api._publish", _refuse)
        with pytest.raises(RunError, match="disk full"):
            pipeline.load("job.yaml").run()
    assert DeltaTable("target").version() == 0
    monkeypatch.setattr("deltalake.write_deltalake", _refuse_os)
    with pytest.raises(
        RunError, match=r"target: the Delta Lake table was not written and is as it was \(disk full\)\. Run again"
    ) as failed:
        pipeline.load("job.yaml").run()
    assert any("The new result was in place already" in note for note in failed.value.__notes__)
    assert DeltaTable("target").version() == 0


def _refuse(*_: object, **__: object) -> None:
    raise RunError("disk full")


def _refuse_os(*_: object, **__: object) -> None:
    raise OSError("disk full")


@pytest.mark.usefixtures("folder")
def test_delta__refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"nowhere: there is no Delta Lake table \("):
        DeltaInput(path=("nowhere",)).pinned()
    with pytest.raises(InputError, match=r"source: there is no Delta Lake table with a version 9 \("):
        DeltaInput(path=("source",), version=9).pinned()
    with pytest.raises(InputError, match="an input is one delta table"):
        DeltaInput(path=("source", "target")).table_schema()
    schema = Schema(pl.Schema({"k": pl.Int64(), "u": pl.UInt8()}))
    with pytest.raises(JobError, match=r"column 'u' is UInt8, and Delta Lake has no type for it\. Cast it"):
        DeltaOutput(location="new").check(schema, ["k", "u"])
    with pytest.raises(JobError, match=r"source: there is a Delta Lake table already\. Say mode: append or overwrite"):
        DeltaOutput(location="source").check(schema, ["k"])
    with pytest.raises(JobError, match=r"source: the table there has other columns than would be written"):
        DeltaOutput(location="source", mode="append").check(schema, ["k"])
    monkeypatch.setattr("pipeline.formats._lakes.find_spec", lambda _: None)
    with pytest.raises(
        PlaceError, match=r"deltalake, which reads and writes Delta Lake tables, is not installed\. .*pip install '\.\[lakes\]'"
    ):
        DeltaInput(path=("source",)).pinned()


def test_delta_output__takes_the_rows_of_a_table_that_it_made_itself_whatever_their_types(tmp_path: Path) -> None:
    writer = DeltaOutput(location=str(tmp_path / "made"))
    commit(writer, tmp_path)
    commit(writer.model_copy(update={"mode": "append"}), tmp_path)
    assert plain(DeltaTable(str(tmp_path / "made")).to_pyarrow_table()) == 2 * plain(OF_ALL_TYPES.to_arrow())
    commit(writer.model_copy(update={"mode": "overwrite"}), tmp_path)
    assert plain(DeltaTable(str(tmp_path / "made")).to_pyarrow_table()) == plain(OF_ALL_TYPES.to_arrow())
