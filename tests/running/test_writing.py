"""Outputs of one file from many parts, through whole jobs: what is published, what stays, and what a plan refuses."""

from __future__ import annotations

import gzip
from pathlib import Path

import fsspec
import pytest

import pipeline
from pipeline.api import Run
from pipeline.errors import JobError
from pipeline.formats.plink import PlinkInput
from pipeline.results.manifest import verify
from tests.small import inside, replace_in, write_small_job

OUTPUTS = """\
  associations: {from: gwas, sort_by: p_value}
  genotypes: {from: passed, format: plink}
  statistics: {from: gwas, format: gwas_ssf, build: GRCh38}
"""
FILES = {"genotypes/genotypes.bed", "genotypes/genotypes.bim", "genotypes/genotypes.fam"} | {
    f"statistics/statistics.ldl.tsv.gz{ending}" for ending in ("", "-meta.yaml")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_small_job(folder)
    replace_in(folder / "job.yaml", "  associations: {from: gwas, sort_by: p_value}\n  people: {from: older}\n", OUTPUTS)
    return folder


def run_job(folder: Path, **given: object) -> Run:
    with inside(folder):
        return pipeline.load("job.yaml", **given).run()


def listed(run: Run) -> dict[str, int | None]:
    """The files of the joined outputs in the manifest, and their rows."""
    return {entry.path: entry.rows for entry in run.view.files if entry.path.startswith(("genotypes/", "statistics/"))}


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return run_job(folder, inputs__cohort__parts=3)


def test_joined_output__only_the_whole_files_are_published(run: Run) -> None:
    assert set(listed(run)) == FILES
    assert {path: rows for path, rows in listed(run).items() if rows is not None} == {
        "genotypes/genotypes.bed": 60,
        "statistics/statistics.ldl.tsv.gz": 60,
    }
    inside_it = {str(file.relative_to(run.path)) for name in ("genotypes", "statistics") for file in (Path(run.path) / name).iterdir()}
    assert inside_it == FILES
    assert verify(run.path) == []


def test_joined_output__what_was_written_can_be_read(run: Run) -> None:
    table = PlinkInput.model_validate({"path": f"{run.path}/genotypes/genotypes.bed"})
    assert table.rows() == 60
    assert table.axes()["calls"]["sample_id"].to_list() == [f"s{number:02d}" for number in range(64)]
    lines = gzip.decompress(Path(run.path, "statistics/statistics.ldl.tsv.gz").read_bytes()).decode().splitlines()
    assert len(lines) == 61
    assert 'genome_assembly: "GRCh38"' in Path(run.path, "statistics/statistics.ldl.tsv.gz-meta.yaml").read_text()


def test_joined_output__is_the_same_for_other_parts(folder: Path, tmp_path: Path, run: Run) -> None:
    other = run_job(folder, results=str(tmp_path / "other"), inputs__cohort__parts=1)
    for name in ("genotypes.bed", "genotypes.bim", "genotypes.fam"):
        assert Path(other.path, "genotypes", name).read_bytes() == Path(run.path, "genotypes", name).read_bytes()


def test_joined_output__into_a_url(folder: Path, run: Run) -> None:
    there = run_job(folder, results="memory://joined", inputs__cohort__parts=3)
    assert listed(there) == listed(run)
    store = fsspec.filesystem("memory")
    root = there.path.removeprefix("memory:/")
    assert store.cat(f"{root}/genotypes/genotypes.bed") == Path(run.path, "genotypes/genotypes.bed").read_bytes()
    assert {name.rpartition("/")[2] for name in store.ls(f"{root}/genotypes", detail=False)} == {
        f"genotypes.{end}" for end in ("bed", "bim", "fam")
    }


def test_joined_output__a_table_that_does_not_fit_is_refused_with_its_line(folder: Path) -> None:
    calls = r"outputs\.genotypes\.format: a plink fileset holds hard calls, and this table has none"
    with inside(folder), pytest.raises(JobError, match=calls):
        pipeline.load("job.yaml", outputs__genotypes__from="gwas").plan()
    columns = r"outputs\.statistics\.format: GWAS-SSF needs the column chromosome, which is not written here"
    with inside(folder), pytest.raises(JobError, match=columns):
        pipeline.load("job.yaml", outputs__statistics__from="older").plan()
