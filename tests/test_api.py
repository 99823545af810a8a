"""The Python API, as a notebook uses it."""

from __future__ import annotations

import errno
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline
from pipeline.api import LoadedJob, Run
from pipeline.errors import DataError, JobError, RefusedError, RunError
from pipeline.results.manifest import verify
from pipeline.results.publish import RunFolder
from tests.small import current_run, inside, replace_in, write_small_job


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_small_job(folder)
    replace_in(folder / "job.yaml", "people: {from: older}", "people: {from: older, format: csv}")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    with inside(folder):
        return pipeline.load("job.yaml").run()


@pytest.mark.process
def test_import__of_the_package_is_light() -> None:
    code = "import sys, pipeline; print({'polars', 'dask', 'numpy', 'pydantic', 'distributed'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_load__takes_overrides_by_name(folder: Path) -> None:
    with inside(folder):
        job = pipeline.load(Path("job.yaml"), seed=11, stages__passed__min_maf=0.05, inputs__sheet__path="sheet.csv")
    assert isinstance(job, LoadedJob)
    assert job.job.seed == 11
    assert job.job.stages[0].stage.model_dump()["min_maf"] == 0.05
    with inside(folder), pytest.raises(JobError, match=r"stages\.passed\.min_maf: 5 is above"):
        pipeline.load("job.yaml", stages__passed__min_maf=5)


def test_plan__shows_every_table(folder: Path) -> None:
    with inside(folder):
        job = pipeline.load("job.yaml")
        plan = job.plan()
        page = job._repr_html_()
    assert plan.tables["older"].columns["decades"] == pl.Float64()
    assert [stage.spec.name for stage in plan.stages] == ["passed", "people", "older", "gwas"]
    assert page.startswith("<pre>")
    assert "stage gwas: linear_gwas of passed, older" in page


def test_run__gives_tables_in_every_library(run: Run) -> None:
    frame = run.table("associations").to_polars()
    assert frame.height == 60
    assert frame["p_value"].is_sorted()
    assert_frame_equal(run.table("associations").to_lazy().collect(), frame)
    assert run.table("associations").to_arrow().column_names == frame.columns
    for other in (run.table("associations").to_pandas(), run.table("associations").to_dask().compute()):
        assert list(other.columns) == frame.columns
        assert np.array_equal(other["p_value"].to_numpy(), frame["p_value"].to_numpy())


def test_run__reads_an_output_of_text(run: Run) -> None:
    people = run.table("people")
    assert people.to_polars().height == len(people.to_dask()) == 64


TYPED = """\
job: typed
results: results
report: false
inputs:
  rows: {format: parquet, path: rows.parquet}
stages:
  - {use: filter, from: rows, as: all, where: k >= 0}
outputs:
  parquet: {from: all}
  csv: {from: all, format: csv, separator: ";", null_value: "-"}
  some: {from: all, format: csv, separator: "\\t", columns: [t, k, s]}
"""


def test_run__reads_its_own_text_with_its_own_settings_and_types(tmp_path: Path) -> None:
    times = [datetime(2020, 1, 2, 3, 4, 5, 6), None, datetime(1969, 1, 1)]
    frame = pl.DataFrame({"k": [1, 2, 3], "t": ["007", None, ""], "s": ["a;b", "x\ny", None], "at": times})
    frame = frame.with_columns(
        pl.col("at").dt.date().alias("day"),
        pl.col("at").dt.replace_time_zone("Europe/Berlin").alias("zoned"),
        pl.col("at").cast(pl.Datetime("ns")).alias("fine"),
        pl.Series("price", [Decimal("1.250"), None, Decimal("-3.000")], pl.Decimal(38, 3)),
        pl.Series("wide", [2**64 - 1, None, 0], pl.UInt64),
        pl.Series("short", [0.1, None, 1e-30], pl.Float32),
        pl.Series("ok", [True, None, False]),
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.yaml").write_text(TYPED)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    assert_frame_equal(run.table("csv").to_polars(), run.table("parquet").to_polars(), check_exact=True)
    assert_frame_equal(run.table("some").to_polars(), frame.select("t", "k", "s"))
    assert [text or "-" for text in run.table("some").to_dask().compute()["t"].fillna("null")] == ["007", "null", "-"]


def test_run__has_metrics_record_and_report(folder: Path, run: Run) -> None:
    assert Path(run.path) == current_run(folder / "results")
    assert run.outputs == ["associations", "people"]
    assert run.metrics == {}
    assert (run.record["run"], run.record["status"]) == (Path(run.path).name, "done")
    assert Path(run.report).read_text(encoding="utf-8").startswith("<!")
    assert "<td>associations</td><td>60</td>" in run._repr_html_()
    assert verify(run.path) == []


def test_run__refuses_an_output_that_is_none(run: Run) -> None:
    with pytest.raises(RunError, match=r"there is no output 'asociations'\. Did you mean 'associations'\?"):
        run.table("asociations")


def test_open_run__is_the_current_one(folder: Path, run: Run, tmp_path: Path) -> None:
    assert pipeline.open_run(folder / "results").record == run.record
    with pytest.raises(RunError, match="no run has been published there yet"):
        pipeline.open_run(tmp_path)


def test_run__into_a_url_is_read_from_there(folder: Path, run: Run) -> None:
    with inside(folder):
        there = pipeline.load("job.yaml", results="memory://api").run()
    assert there.path.startswith("memory://")
    assert there.report == f"{there.path}/report.html"
    assert there.record["status"] == "done"
    for name in run.outputs:
        assert_frame_equal(there.table(name).to_polars(), run.table(name).to_polars())
    assert pipeline.open_run("memory://api").record == there.record


def test_run__that_fails_raises_what_the_command_line_says(folder: Path, run: Run, tmp_path: Path) -> None:
    text = (folder / "sheet.csv").read_text()
    (tmp_path / "twice.csv").write_text(text + text.splitlines()[1] + "\n")
    with inside(folder):
        job = pipeline.load("job.yaml", inputs__sheet__path=str(tmp_path / "twice.csv"))
        with pytest.raises(DataError, match=r"job\.yaml:14:5: stages\.gwas: the samples table names 1 people twice") as caught:
            job.run()
    assert "the former result is unchanged" in caught.value.__notes__[0]
    assert current_run(folder / "results") == Path(run.path)
    with inside(folder), pytest.raises(RefusedError, match="no such file"):
        pipeline.load("job.yaml", inputs__sheet__path="nowhere.csv").run()


def test_run__a_record_that_cannot_be_written_does_not_hide_what_failed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "sheet.csv").read_text()
    (tmp_path / "twice.csv").write_text(text + text.splitlines()[1] + "\n")
    write_json = RunFolder.write_json

    def full_later(run: RunFolder, name: str, value: dict[str, Any]) -> str:
        if value["status"] == "running":
            return write_json(run, name, value)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(RunFolder, "write_json", full_later)
    with inside(folder):
        job = pipeline.load("job.yaml", inputs__sheet__path=str(tmp_path / "twice.csv"), results="full")
        with pytest.raises(DataError, match=r"stages\.gwas: the samples table names 1 people twice") as caught:
            job.run()
    assert "run.json could not be written (Input/output error); no result was published" in caught.value.__notes__[0]
