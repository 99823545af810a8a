"""Inputs that change between plan and publish: the run fails with the file's name, whatever the file is and whenever it changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import pipeline
from pipeline.errors import DataError
from pipeline.results.publish import RunFolder
from pipeline.running.execute import Execution
from tests.formats.indexed_vcf import indexed
from tests.small import inside, last_record, run_main

JOB = """\
job: parts
results: results
inputs:
  rows: {format: FORMAT, path: PATH}
stages:
  - {use: filter, from: rows, as: some, where: x >= 0}
outputs:
  all: {from: some}
"""
ROWS, FILES = 700, 3


def write_job(folder: Path, format_name: str, path: str) -> None:
    (folder / "in").mkdir()
    for number in range(FILES):
        frame = pl.DataFrame({"x": range(number * ROWS, (number + 1) * ROWS)})
        getattr(frame, f"write_{format_name}")(folder / f"in/{number}.{format_name}")
    (folder / "job.yaml").write_text(JOB.replace("FORMAT", format_name).replace("PATH", path))


def removed(file: Path) -> None:
    file.unlink()


def replaced(file: Path) -> None:
    """Fewer rows, put there by a rename, as a writer does that wants readers to see whole files."""
    frame = pl.DataFrame({"x": [1, 2]})
    getattr(frame, f"write_{file.suffix[1:]}")(file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


def touched(file: Path) -> None:
    """The same bytes of another time: nobody can tell that they are the same."""
    os.utime(file, ns=(1, 1))


CHANGES: dict[Callable[[Path], None], str] = {
    removed: "was removed",
    replaced: r"has changed \([0-9,]+ bytes then, [0-9,]+ now\)",
    touched: "was written anew",
}


@pytest.mark.parametrize("path", ["in", "in/*", "[in/0.FORMAT, in/1.FORMAT, in/2.FORMAT]"])
@pytest.mark.parametrize("format_name", ["parquet", "csv"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["before it is read", "before it is published"])
def test_run__fails_with_the_name_of_a_file_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, format_name: str, change: Callable[[Path], None], moment: str
) -> None:
    write_job(tmp_path, format_name, path.replace("FORMAT", format_name))
    name = "_submit" if moment == "before it is read" else "_wait"
    method = getattr(Execution, name)

    def changing(execution: Execution) -> None:
        if moment == "before it is read":
            change(tmp_path / f"in/1.{format_name}")
        method(execution)
        if moment == "before it is published":
            change(tmp_path / f"in/1.{format_name}")

    monkeypatch.setattr(Execution, name, changing)
    with inside(tmp_path), pytest.raises(DataError, match=rf"job\.yaml:4:9: inputs\.rows: in/1\.{format_name}: {CHANGES[change]} since"):
        pipeline.load("job.yaml").run()
    assert last_record(tmp_path / "results")["status"] == "failed"
    assert not (tmp_path / "results/current").exists()


@pytest.mark.parametrize("path", ["in", "in/*.parquet"])
def test_run__reads_the_files_that_the_plan_saw_and_no_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    write_job(tmp_path, "parquet", path)
    submit = Execution._submit

    def one_more(execution: Execution) -> None:
        shutil.copy(tmp_path / "in/0.parquet", tmp_path / "in/9.parquet")
        submit(execution)

    monkeypatch.setattr(Execution, "_submit", one_more)
    with inside(tmp_path):
        run = pipeline.load("job.yaml").run()
    assert run.record["inputs"]["rows"]["rows"] == FILES * ROWS
    assert run.table("all").to_polars()["x"].to_list() == list(range(FILES * ROWS))


def test_run__that_is_not_published_keeps_the_former_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path, "parquet", "in")
    with inside(tmp_path):
        former = pipeline.load("job.yaml").run()
        wait = Execution._wait

        def changing(execution: Execution) -> None:
            wait(execution)
            replaced(tmp_path / "in/2.parquet")

        monkeypatch.setattr(Execution, "_wait", changing)
        ended = run_main("job.yaml", "--quiet", "--fresh")
        assert ended.code == 1
        assert "in/2.parquet: has changed" in ended.err
        assert "the former result is unchanged" in ended.err
        assert pipeline.open_run("results").path == former.path


def test_run__sees_companions_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = Path(__file__).parents[1] / "data/hapmap3"
    bed = next(share.rglob("*.bed"))
    for file in bed.parent.glob(f"{bed.stem}.*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "job.yaml").write_text(
        f"job: calls\nresults: results\nreport: false\ninputs:\n  cohort: {{format: plink, path: {bed.name}}}\n"
        "stages:\n  - {use: variant_qc, from: cohort, as: passed}\noutputs:\n  all: {from: passed}\n"
    )
    make = RunFolder.file

    def changing(folder: RunFolder, name: str) -> str:
        os.utime(tmp_path / f"{bed.stem}.fam", ns=(1, 1))
        return make(folder, name)

    monkeypatch.setattr(RunFolder, "file", changing)
    with inside(tmp_path), pytest.raises(DataError, match=rf"inputs\.cohort: {bed.stem}\.fam: was written anew"):
        pipeline.load("job.yaml").run()


@pytest.mark.parametrize(("regions", "kind"), [("[20]", "tbi"), ("[20]", "csi"), ("[]", "tbi")])
def test_run__sees_the_index_that_regions_are_read_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regions: str, kind: str) -> None:
    indexed(tmp_path, kind)
    (tmp_path / "job.yaml").write_text(
        f"job: calls\nresults: results\nreport: false\ninputs:\n  cohort: {{format: vcf, path: t.vcf.gz, regions: {regions}}}\n"
        "stages:\n  - {use: variant_qc, from: cohort, as: passed}\noutputs:\n  all: {from: passed}\n"
    )
    make = RunFolder.file

    def changing(folder: RunFolder, name: str) -> str:
        (tmp_path / f"t.vcf.gz.{kind}").unlink(missing_ok=True)
        return make(folder, name)

    monkeypatch.setattr(RunFolder, "file", changing)
    if regions == "[]":
        with inside(tmp_path):
            assert pipeline.load("job.yaml").run().record["status"] == "done"
        return
    with inside(tmp_path), pytest.raises(DataError, match=rf"inputs\.cohort: t\.vcf\.gz\.{kind}: was removed"):
        pipeline.load("job.yaml").run()
