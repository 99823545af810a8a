"""iceberg: a snapshot of a table as pyiceberg reads it, and one commit once a run is published."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyiceberg.catalog import Catalog, load_catalog

import pipeline
from pipeline.errors import InputError, JobError, PlaceError, RunError
from pipeline.formats.iceberg import IcebergInput, IcebergOutput
from pipeline.tables.part import Schema
from pipeline.testing.formats import assert_reads
from tests.formats.of_lakes import FRAME as OF_ALL_TYPES
from tests.formats.of_lakes import commit, plain
from tests.small import inside, run_main

FRAME = pl.DataFrame(
    {
        "k": [1, 2, None],
        "t": ["a", None, "b"],
        "x": [1.5, None, -0.0],
        "d": [date(2020, 1, 31), None, date(1969, 12, 31)],
        "p": [Decimal("1.50"), None, Decimal("-2.25")],
        "l": [[1], None, []],
        "z": pl.Series([datetime(2021, 3, 28, 1, 30, tzinfo=UTC), None, None], dtype=pl.Datetime("us", "UTC")),
    }
)
JOB = """\
job: lake
results: results
inputs:
  rows: {format: iceberg, path: source}
outputs:
  all: {from: rows, format: iceberg, identifier: made.target, catalog: here, mode: append, properties: PROPERTIES}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog in the folder that the test works in, with a table of two snapshots, and a job."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    (tmp_path / "warehouse").mkdir()
    with inside(tmp_path):
        found = load_catalog("here", **properties)
        found.create_namespace("own")
        table = found.create_table("own.source", schema=FRAME.to_arrow().schema, location=f"file://{tmp_path}/source")
        table.append(FRAME.to_arrow())
        table.append(FRAME.head(1).to_arrow())
        (tmp_path / "job.yaml").write_text(JOB.replace("PROPERTIES", str(properties).replace("'", '"')))
        yield found
        found.close()


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.to_dicts() if isinstance(frame, pl.DataFrame) else frame.to_pylist(), key=str)


def test_iceberg_input__reads_a_snapshot_in_any_parts(catalog: Catalog) -> None:
    table = catalog.load_table("own.source")
    first, newest = (IcebergInput(path=("source",), snapshot=snapshot) for snapshot in (table.snapshots()[0].snapshot_id, None))
    for reader, height in ((first, 3), (newest, 4), (newest.pinned(), 4)):
        found = pl.concat([source.load().collect() for source in reader.sources(2)])
        assert rows_of(found) == rows_of(table.scan(snapshot_id=reader.snapshot).to_arrow())
        assert found.height == height
        assert_reads(reader, found)
    assert newest.pinned().snapshot == table.metadata.current_snapshot_id
    assert all(Path(file).exists() for file in newest.pinned().content())


def test_job__commits_once_it_is_published_and_names_the_snapshot_that_it_read(catalog: Catalog) -> None:
    source = catalog.load_table("own.source")
    first = pipeline.load("job.yaml").run()
    read = first.record["inputs"]["rows"]
    assert read["snapshot"] == source.metadata.current_snapshot_id
    target = catalog.load_table("made.target")
    assert rows_of(target.scan().to_arrow()) == rows_of(first.table("all").to_polars())
    source.append(FRAME.head(2).to_arrow())
    again = pipeline.load("job.yaml", inputs__rows__path=read["metadata"], inputs__rows__snapshot=read["snapshot"]).run()
    assert rows_of(again.table("all").to_polars()) == rows_of(first.table("all").to_polars())
    target = catalog.load_table("made.target")
    summary = target.snapshots()[-1].summary
    assert summary is not None
    assert summary["run"] == again.view.id
    assert (len(target.snapshots()), target.scan().to_arrow().num_rows) == (2, 8)
    pipeline.load("job.yaml", outputs__all__mode="overwrite").run()
    assert catalog.load_table("made.target").scan().to_arrow().num_rows == 6


def test_job__that_fails_commits_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.api._publish", _refuse)
        with pytest.raises(RunError, match="disk full"):
            pipeline.load("job.yaml").run()
    monkeypatch.setattr("pyiceberg.table.CreateTableTransaction.commit_transaction", _refuse_os)
    with pytest.raises(RunError, match=r"made\.target: the Iceberg table was not written and is as it was \(disk full\)\. Run again"):
        pipeline.load("job.yaml").run()
    assert not catalog.table_exists("made.target")


def _refuse(*_: object, **__: object) -> None:
    raise RunError("disk full")


def _refuse_os(*_: object, **__: object) -> None:
    raise OSError("disk full")


@pytest.mark.usefixtures("catalog")
def test_iceberg__imports_no_class_that_a_table_or_a_job_names(tmp_path: Path) -> None:
    newest = sorted((tmp_path / "source/metadata").glob("*.metadata.json"))[-1]
    document = json.loads(newest.read_text())
    newest.write_text(json.dumps({**document, "properties": {"py-io-impl": "antigravity.Flight"}}))
    with pytest.raises(InputError, match=r"the table's property 'py-io-impl' names code to run"):
        IcebergInput(path=("source",)).table_schema()
    assert "antigravity" not in sys.modules
    writer = IcebergOutput(identifier="own.other", catalog="here", properties={"py-catalog-impl": "antigravity.Flight"})
    with pytest.raises(JobError, match=r"properties: 'py-catalog-impl' names code to run"):
        writer.check(Schema(pl.Schema({"k": pl.Int64()})), ["k"])
    assert "antigravity" not in sys.modules


def test_iceberg__refuses_what_does_not_fit(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"nowhere: there is no Iceberg table \("):
        IcebergInput(path=("nowhere",)).pinned()
    with pytest.raises(InputError, match=r"there is no snapshot 9\. It has: [0-9]+, [0-9]+\."):
        IcebergInput(path=("source",), snapshot=9).table_schema()
    (tmp_path / "empty/metadata").mkdir(parents=True)
    with pytest.raises(InputError, match=r"empty: there is no Iceberg table \(no file \*\.metadata\.json"):
        IcebergInput(path=("empty",)).pinned()
    properties = dict(catalog.properties)
    writer = IcebergOutput(
        identifier="own.source", catalog="here", properties={key: properties[key] for key in ("type", "uri", "warehouse")}
    )
    schema = Schema(pl.Schema({"k": pl.Int64(), "u": pl.UInt8()}))
    with pytest.raises(JobError, match=r"column 'u' is UInt8, and Iceberg has no type for it\. Cast it"):
        writer.check(schema, ["k", "u"])
    with pytest.raises(JobError, match=r"own\.source: there is an Iceberg table already\. Say mode: append or overwrite"):
        writer.check(schema, ["k"])
    with pytest.raises(JobError, match=r"own\.source: the table there has other columns than would be written"):
        writer.model_copy(update={"mode": "append"}).check(schema, ["k"])
    with pytest.raises(PlaceError, match=r"the Iceberg catalog 'nowhere' cannot be opened \(.*\)\. Name it in \.pyiceberg\.yaml"):
        IcebergOutput(identifier="a.b", catalog="nowhere").check(schema, ["k"])
    away = {"type": "sql", "uri": f"sqlite:///{tmp_path}/none/catalog.db", "warehouse": str(tmp_path)}
    with pytest.raises(PlaceError, match=r"the Iceberg catalog 'default' cannot be opened \(unable to open database file\)\. Name it in"):
        IcebergOutput(identifier="own.source", properties=away).check(schema, ["k"])
    monkeypatch.setattr("pipeline.formats._lakes.find_spec", lambda _: None)
    with pytest.raises(
        PlaceError, match=r"pyiceberg, which reads and writes Iceberg tables, is not installed\. .*pip install '\.\[lakes\]'"
    ):
        IcebergInput(path=("source",)).pinned()


def test_iceberg_output__whose_catalog_cannot_be_opened_is_told_by_its_place_in_the_job(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("k\n1\n")
    (tmp_path / "job.yaml").write_text(
        "job: j\nresults: out\ninputs: {x: {format: csv, path: x.csv}}\nstages: [{use: filter, from: x, as: q, where: k > 0}]\n"
        "outputs:\n  q: {from: q, format: iceberg, identifier: a.b, catalog: nowhere}\n"
    )
    with inside(tmp_path):
        ended = run_main("job.yaml", "--check")
    assert ended.code == 2
    assert ended.err.startswith("error: job.yaml:6:24: outputs.q.format: the Iceberg catalog 'nowhere' cannot be opened (")


def test_iceberg_output__takes_the_rows_of_a_table_that_it_made_itself_whatever_their_types(catalog: Catalog, tmp_path: Path) -> None:
    properties = {key: dict(catalog.properties)[key] for key in ("type", "uri", "warehouse")}
    writer = IcebergOutput(identifier="made.types", catalog="here", properties=properties)
    commit(writer, tmp_path)
    commit(writer.model_copy(update={"mode": "append"}), tmp_path)
    assert plain(catalog.load_table("made.types").scan().to_arrow()) == 2 * plain(OF_ALL_TYPES.to_arrow())
    commit(writer.model_copy(update={"mode": "overwrite"}), tmp_path)
    assert plain(catalog.load_table("made.types").scan().to_arrow()) == plain(OF_ALL_TYPES.to_arrow())
