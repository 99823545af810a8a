"""Which stages are beyond memory, by what is known before a run."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline
from pipeline.files import Stamp
from pipeline.formats.csv import CsvInput
from pipeline.formats.parquet import ParquetInput
from pipeline.plan.sizes import UNPACKED, beyond_memory, size_of_input, size_of_table
from pipeline.plan.unchanged import stamps_of
from pipeline.tables.budget import Size, row_bytes
from pipeline.tables.part import Schema

JOB = """
job: sizes
results: results
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: filter, from: rows, as: some, where: x > 0}
  - {use: aggregate, from: some, as: sums, by: k, compute: {total: sum(x)}}
outputs:
  sums: {from: sums, sort_by: k}
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"k": range(1_000), "x": range(1_000)}).write_parquet("rows.parquet")
    Path("job.yaml").write_text(JOB)
    return pipeline.load("job.yaml")


def test_beyond_memory__are_stages_whose_rows_must_meet(job: Any) -> None:
    plan = job.plan()
    assert beyond_memory(plan, None) == {}
    assert beyond_memory(plan, 4 * 16_000) == {}
    found = beyond_memory(plan, 4 * 16_000 - 4)
    assert list(found) == ["sums"]
    assert (
        found["sums"] == "beyond memory, so what it holds or exchanges lies on disk (up to 0.0 GB where 0.0 GB of 0.0 GB are for one table)"
    )


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("chain", "rows"),
    [
        ("{use: aggregate, from: some, as: other, by: k, compute: {total: sum(x)}}", 10),
        ("{use: drop_duplicates, from: some, as: other, columns: [k]}", 10),
        ("{use: derive, from: some, as: other, columns: {total: x + 1}}", 1_000),
        ("{use: aggregate, from: some, as: other, by: x, compute: {k: max(k)}}", 1_000),
    ],
)
def test_join__has_no_more_rows_than_a_table_whose_rows_have_one_partner(chain: str, rows: int) -> None:
    """Ten keys joined to what comes of a thousand rows, through stages that change no key."""
    numbers = list(range(10))
    pl.DataFrame({"k": numbers, "name": numbers}).write_parquet("keys.parquet")
    between = "{use: filter, from: other, as: kept, where: k >= 0}, {use: derive, from: kept, as: more, columns: {y: k * 2}}"
    joined = "{use: join, from: {left: keys, right: more}, as: joined, on: k}, {use: sort, from: joined, as: last, by: k}"
    first = "{use: filter, from: rows, as: some, where: x > 0}"
    text = JOB[: JOB.index("stages:")] + "  keys: {format: parquet, path: keys.parquet}\n"
    text += f"stages: [{first}, {chain}, {between}, {joined}]\noutputs:\n  last: {{from: last, sort_by: k}}\n"
    Path("joined.yaml").write_text(text)
    plan = pipeline.load("joined.yaml").plan()
    row = row_bytes(plan.tables["joined"])
    assert "last" in beyond_memory(plan, 4 * rows * row - 4)
    assert "last" not in beyond_memory(plan, 4 * rows * row)


@pytest.mark.usefixtures("job")
def test_join__is_as_large_as_what_somebody_reads() -> None:
    """Of sixteen columns the key and one are read: two times eight bytes a row."""
    pl.DataFrame({"k": range(1_000), **{f"c{number}": range(1_000) for number in range(15)}}).write_parquet("wide.parquet")
    joined = "{use: join, from: {left: rows, right: wide}, as: joined, on: k}"
    stages = f"{joined}, {{use: aggregate, from: joined, as: last, by: x, compute: {{c: sum(c3)}}}}"
    text = (
        JOB[: JOB.index("stages:")]
        + f"  wide: {{format: parquet, path: wide.parquet}}\nstages: [{stages}]\noutputs:\n  last: {{from: last, sort_by: x}}\n"
    )
    Path("wide.yaml").write_text(text)
    plan = pipeline.load("wide.yaml").plan()
    assert "joined" in beyond_memory(plan, 4 * 16_000 - 4)
    assert "joined" not in beyond_memory(plan, 4 * 16_000)


@pytest.mark.usefixtures("job")
def test_explain__says_so_where_the_job_has_little_memory(capsys: pytest.CaptureFixture[str]) -> None:
    from pipeline.run import main

    assert main(["job.yaml", "--explain", "--set", "cluster.memory_limit=60kB"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("stage")]
    assert ["beyond memory" in line for line in lines] == [False, True]


def test_input__of_unknown_rows_is_as_large_as_its_files_may_be() -> None:
    schema = Schema(pl.Schema({"k": pl.Int64, "name": pl.String}))
    size = size_of_input(schema, None, {"a.csv": Stamp(1_000), "b.csv": Stamp(500)})
    assert size is not None
    assert size.bytes == pytest.approx(1_500 * UNPACKED, rel=0.05)
    assert size_of_input(schema, None, {}) is None
    assert size_of_input(schema, 7, {}) == Size(7, row_bytes(schema))


def test_input__of_lists_is_as_large_as_its_footers_say(tmp_path: Path) -> None:
    lists = pl.DataFrame({"id": range(50), "days": [[number] * 1_000 for number in range(50)], "at": [{"x": 0.5}] * 50})
    lists.write_parquet(tmp_path / "lists.parquet", row_group_size=20)
    reader = ParquetInput.model_validate({"path": str(tmp_path / "lists.parquet")})
    assert reader.nested_bytes({"days", "at"}) == pytest.approx(lists.select("days", "at").estimated_size(), rel=0.02)
    size = size_of_input(reader.table_schema(), reader.rows(), stamps_of(reader), reader)
    assert size is not None
    assert size.bytes == pytest.approx(lists.estimated_size(), rel=0.02)


def test_table__has_as_many_rows_as_the_largest_that_its_stage_reads_unless_it_is_known() -> None:
    schema = Schema(pl.Schema({"k": pl.Int64, "on": pl.Boolean, "day": pl.Date}))
    assert row_bytes(schema) == 13
    assert size_of_table(None, schema, [Size(5, 100), None, Size(9, 1)]) == Size(9, 13)
    assert size_of_table(Size(3, 100), schema, [Size(9, 1)]) == Size(3, 13)
    assert size_of_table(None, schema, [None]) is None
    assert size_of_table(None, Schema(schema.columns, {"calls": pl.Schema()}), [Size(9, 1)]) is None


def test_input__of_text_has_about_as_many_rows_as_its_first_lines_say(tmp_path: Path) -> None:
    pl.DataFrame({"k": [10**12] * 5_000, "name": ["a longer name than a number"] * 5_000}).write_csv(tmp_path / "rows.csv")
    (tmp_path / "few.csv").write_text("k,name\n1,a\n")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((tmp_path / "rows.csv").read_bytes()))
    reader = CsvInput.model_validate({"path": str(tmp_path)})
    stamps = stamps_of(reader.model_copy(update={"path": (str(tmp_path / "rows.csv"),)}))
    size = size_of_input(reader.table_schema(), None, stamps, reader)
    assert size is not None
    assert size.rows == pytest.approx(5_000 * 1.5, rel=0.01)
    for name in ("few.csv", "packed.csv.gz", "gone.csv"):
        assert reader.stored_bytes_of_row(str(tmp_path / name)) is None
