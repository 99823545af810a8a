"""Input files here and at URLs: found, opened, known by their stamps, and a whole job that reads both."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import run

import fsspec
import polars as pl
import pytest

from pipeline import load
from pipeline.errors import InputError
from pipeline.files import Stamp, beside, exists, for_polars, is_folder, is_url, local_path, matching, names, open_file, parent, stamp
from pipeline.formats.csv import CsvInput
from pipeline.formats.gtf import GtfInput
from pipeline.formats.parquet import ParquetInput, ParquetOutput
from pipeline.tables.steps import Step, evaluate
from tests.stages.genomics.cohorts import small_cohort

SHEET = b"id,site\n1,a\n2,b\n3,a\n"
GENES = b'#!genome-build GRCh38.p14\nchr1\tX\tgene\t10\t20\t.\t+\t.\tgene_id "G1"; gene_name "A";\n'
JOB = """
job: far
results: {folder}/results
inputs:
  sheet: {{format: csv, path: memory://lab/sheets, parts: 2}}
  sites: {{format: parquet, path: "memory://lab/sites*.parquet"}}
stages:
  - {{use: join, from: {{left: sheet, right: sites}}, on: site, as: placed}}
outputs:
  placed: {{from: placed, sort_by: id}}
"""


@pytest.fixture
def far() -> Iterator[fsspec.AbstractFileSystem]:
    """An empty file system in memory, which only fsspec reaches."""
    system = fsspec.filesystem("memory")
    yield system
    for path in system.ls("/", detail=False):
        system.rm(path, recursive=True)


def parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def test_is_url__takes_file_urls_for_paths() -> None:
    assert [is_url(path) for path in ("a/b.csv", "/a/b.csv", "file:///a/b.csv", "s3://bucket/b.csv")] == [False, False, False, True]
    assert (local_path("file:///a/b.csv"), local_path("a/b.csv")) == ("/a/b.csv", "a/b.csv")


def test_stamp__is_size_and_time_here_and_what_the_service_tells_there(tmp_path: Path, far: fsspec.AbstractFileSystem) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    os.utime(tmp_path / "x", ns=(0, 17))
    assert stamp(tmp_path / "x") == Stamp(3, 17)
    far.pipe_file("/lab/x", b"abc")
    first = stamp("memory://lab/x")
    assert (first.size, first.changed, bool(first.etag)) == (3, 0, True)
    assert stamp("memory://lab/x") == first
    far.pipe_file("/lab/x", b"abd")
    assert stamp("memory://lab/x") != first


@pytest.mark.parametrize("place", ["here", "there"])
def test_files__are_found_alike_here_and_there(tmp_path: Path, far: fsspec.AbstractFileSystem, place: str) -> None:
    folder = str(tmp_path) if place == "here" else "memory://lab"
    for name in ("b.csv", "a.csv", "c.txt"):
        (tmp_path / name).write_bytes(SHEET)
        far.pipe_file(f"/lab/{name}", SHEET)
    assert (is_folder(folder), is_folder(beside(folder, "a.csv")), is_folder(beside(folder, "none"))) == (True, False, False)
    assert names(folder) == ["a.csv", "b.csv", "c.txt"]
    assert (exists(beside(folder, "a.csv")), exists(beside(folder, "z.csv")), exists(folder)) == (True, False, False)
    assert [path.rpartition("/")[2] for path in matching(beside(folder, "*.csv"))] == ["a.csv", "b.csv"]
    assert parent(beside(folder, "a.csv")) == folder
    with open_file(beside(folder, "a.csv")) as file:
        file.seek(3)
        assert file.read(4) == b"site"
    with pytest.raises(FileNotFoundError, match="z\\.csv"):
        stamp(beside(folder, "z.csv"))
    with pytest.raises(InputError, match=r"a\.cvs: no such file\. Did you mean 'a\.csv'\?"):
        CsvInput.model_validate({"path": beside(folder, "a.cvs")}).files()


def test_files__of_an_unknown_kind_of_url_are_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"foo://lab/x: no installed library reads there .* copy the file to a folder"):
        stamp("foo://lab/x")


def test_for_polars__leaves_to_polars_what_it_reads_itself(far: fsspec.AbstractFileSystem) -> None:
    far.pipe_file("/lab/x.csv", SHEET)
    assert for_polars("x.csv.gz") == "x.csv.gz"
    assert for_polars("s3://bucket/x.parquet") == "s3://bucket/x.parquet"
    assert for_polars("memory://lab/x.csv") == SHEET


@pytest.mark.process
def test_files__of_this_machine_load_no_remote_library(tmp_path: Path) -> None:
    code = "import sys, pipeline.files as f; f.stamp(sys.argv[1]); print([m for m in sys.modules if 'fsspec.implementations.' in m])"
    found = run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True).stdout
    assert set(found.strip()[1:-1].split(", ")) <= {"'fsspec.implementations.local'", ""}


def test_csv_input__reads_a_gzip_at_a_url(far: fsspec.AbstractFileSystem) -> None:
    far.pipe_file("/lab/x.csv.gz", gzip.compress(SHEET))
    (source,) = CsvInput.model_validate({"path": "memory://lab/x.csv.gz"}).sources(1)
    assert source.scan().collect()["id"].to_list() == [1, 2, 3]


def test_csv_input__names_the_line_of_a_file_at_a_url(far: fsspec.AbstractFileSystem) -> None:
    far.pipe_file("/lab/x.csv", SHEET + b"x,c\n")
    (source,) = CsvInput.model_validate({"path": "memory://lab/x.csv", "columns": {"id": "int64"}}).sources(1)
    assert str(source.explain()).startswith("memory://lab/x.csv:5: column 'id' is Int64, and 'x' is none.")


def test_parquet_input__reads_genotypes_at_a_url(tmp_path: Path, far: fsspec.AbstractFileSystem) -> None:
    cohort = small_cohort()
    ParquetOutput(calls=True).write(cohort.rows, {"calls": cohort.people}, str(tmp_path / "x.parquet"))
    far.pipe_file("/lab/x.parquet", (tmp_path / "x.parquet").read_bytes())
    here, there = (ParquetInput.model_validate({"path": path}) for path in (str(tmp_path / "x.parquet"), "memory://lab/x.parquet"))
    assert there.table_schema() == here.table_schema()
    read = [evaluate(Step("read", "x", source=reader.sources(1)[0]), "cpu") for reader in (here, there)]
    assert read[1].arrays["calls"].tolist() == read[0].arrays["calls"].tolist()
    assert read[1].frame.equals(read[0].frame)


def test_gtf_input__reads_a_gzip_at_a_url(far: fsspec.AbstractFileSystem) -> None:
    far.pipe_file("/lab/genes.gtf.gz", gzip.compress(GENES))
    table = GtfInput.model_validate({"path": "memory://lab/genes.gtf.gz"})
    assert table.genome_build() == "GRCh38"
    assert table.sources(1)[0].load().frame["gene_name"].to_list() == ["A"]


def test_job__reads_its_inputs_at_urls(tmp_path: Path, far: fsspec.AbstractFileSystem) -> None:
    far.pipe_file("/lab/sheets/1.csv", SHEET)
    far.pipe_file("/lab/sheets/2.csv", b"id,site\n4,b\n")
    far.pipe_file("/lab/sites.parquet", parquet(pl.DataFrame({"site": ["a", "b"], "height": [10.0, 20.0]})))
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(folder=tmp_path))
    run = load(job, report=False).run()
    assert run.table("placed").to_polars().rows() == [(1, "a", 10.0), (2, "b", 20.0), (3, "a", 10.0), (4, "b", 20.0)]
    known = run.record["fingerprints"]
    far.pipe_file("/lab/sheets/2.csv", b"id,site\n5,b\n")
    again = load(job, report=False).run()
    assert again.table("placed").to_polars()["id"].to_list() == [1, 2, 3, 5]
    assert [name for name, mark in again.record["fingerprints"].items() if mark == known[name]] == ["sites"]
