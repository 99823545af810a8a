"""`import: true` of an input: made once, found by content, never believed when torn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyvcf2 import VCF

from pipeline.api import Run, load
from pipeline.errors import DataError, PlaceError
from pipeline.formats.vcf import VcfInput
from pipeline.running.contents import content_digest
from pipeline.running.kept_inputs import Imports, Kept, submit_import
from pipeline.tables.part import concat_parts
from pipeline.tables.session import Session
from pipeline.tables.steps import Step, evaluate

COHORT = Path(__file__).parents[2] / "data" / "genomics" / "cohort.vcf.gz"
HEAD = (
    "##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=x>\n"
    "##FORMAT=<ID=DS,Number=A,Type=Float,Description=x>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\tb\tc\n"
)
JOB = """
job: kept
inputs:
  cohort: {{format: vcf, path: {path}, import: true, parts: 3}}
outputs:
  variants: {{from: cohort}}
  people: {{from: cohort.samples}}
"""


def write_vcf(path: Path, records: int = 60) -> Path:
    lines = (
        f"1\t{i}\trs{i}\tA\t{'C,G' if i % 5 == 0 else 'C'}\t.\t.\t.\tGT:DS\t0/1:0.5\t1/1:.\t./.:{2 if i % 5 else '2,0'}\n"
        for i in range(records)
    )
    path.write_text(HEAD.replace("Description=x", 'Description="x"') + "".join(lines).replace("0/1:0.5\t", "0/1:.\t"))
    return path


def settled(path: Path) -> None:
    """Let the file be old enough for its digest to be remembered."""
    os.utime(path, (1_700_000_000, 1_700_000_000))


class Writing:
    """Writes imports in this process, and counts how often."""

    def __init__(self, reader: VcfInput) -> None:
        self.reader, self.times = reader, 0

    def __call__(self, folder: str) -> Sequence[Any]:
        self.times += 1
        return submit_import(Session(), "cohort", self.reader, self.reader.table_schema(), folder)


def reader(path: Path, **given: Any) -> VcfInput:
    return VcfInput.model_validate({"path": str(path), "import": True, "parts": 3, **given})


def kept(results: Path, table: VcfInput, write: Callable[[str], Sequence[Any]] | None = None) -> tuple[Kept, int]:
    """The import, and how often it was written for that."""
    writing = Writing(table)
    return Imports(str(results)).of(table, write or writing), writing.times


def folders(results: Path) -> list[str]:
    return sorted(path.name for path in (results / "imports").iterdir() if path.is_dir())


@pytest.mark.parametrize("field", ["calls", "dosages"])
def test_import__holds_what_the_file_holds(tmp_path: Path, field: str) -> None:
    table = reader(write_vcf(tmp_path / "a.vcf"), field=field)
    found, times = kept(tmp_path / "results", table)
    read = concat_parts([evaluate(Step("read", "kept", source=source), "cpu") for source in found.reader(None).sources(2)])
    whole = concat_parts([source.load() for source in table.sources(2)])
    assert (times, found.rows, found.counts) == (1, 72, dict(whole.counts))
    assert read.frame.equals(whole.frame)
    assert found.reader(2).table_schema() == table.table_schema()
    assert found.reader(2).axes().keys() == table.axes().keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array)
        assert found.reader(2).axes()[name].equals(table.axes()[name])


def test_import__is_found_by_content_wherever_the_file_lies_and_whenever_it_was_touched(tmp_path: Path) -> None:
    path, results = write_vcf(tmp_path / "a.vcf"), tmp_path / "results"
    first, times = kept(results, reader(path))
    assert times == 1
    assert kept(results, reader(path)) == (first, 0)
    settled(path)
    assert kept(results, reader(path)) == (first, 0)
    assert kept(results, reader(path, parts=1, build="hg19")) == (first, 0)
    assert kept(results, reader(write_vcf(tmp_path / "copy.vcf"))) == (first, 0)
    assert len(folders(results)) == 1


def test_import__of_another_content_or_read_otherwise_is_another_one(tmp_path: Path) -> None:
    path, results = write_vcf(tmp_path / "a.vcf"), tmp_path / "results"
    first, _ = kept(results, reader(path))
    assert kept(results, reader(path, field="dosages"))[1] == 1
    size = path.stat().st_size
    path.write_text(path.read_text().replace("0/1", "1/1", 1))
    assert path.stat().st_size == size
    changed, times = kept(results, reader(path))
    assert (times, changed.files != first.files) == (1, True)
    assert len(folders(results)) == 3


def test_import__reads_an_unchanged_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, results = write_vcf(tmp_path / "a.vcf"), tmp_path / "results"
    seen: list[str] = []

    def digest(file: str) -> str:
        seen.append(file)
        return content_digest(file)

    monkeypatch.setattr("pipeline.running.contents.content_digest", digest)
    settled(path)
    for _ in range(3):
        kept(results, reader(path))
    assert seen == [str(path)]
    (results / "imports" / "known.json").write_text("{torn")
    assert kept(results, reader(path))[1] == 0
    assert len(seen) == 2


@pytest.mark.parametrize("damage", ["file", "size", "manifest", "version"])
def test_import__that_is_torn_is_made_again(tmp_path: Path, damage: str) -> None:
    table, results = reader(write_vcf(tmp_path / "a.vcf")), tmp_path / "results"
    first, _ = kept(results, table)
    file, manifest = Path(first.files[1]), Path(first.files[1]).with_name("manifest.json")
    if damage == "file":
        file.unlink()
    elif damage == "size":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:-9])
    else:
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 0}))
    again, times = kept(results, table)
    assert (times, again.rows) == (1, first.rows)
    assert kept(results, table) == (again, 0)


def test_import__that_another_run_made_meanwhile_stands(tmp_path: Path) -> None:
    table, results = reader(write_vcf(tmp_path / "a.vcf")), tmp_path / "results"
    other: list[Kept] = []

    def write(folder: str) -> Sequence[Any]:
        other.append(kept(results, table)[0])
        return Writing(table)(folder)

    assert kept(results, table, write)[0] == other[0]
    assert len(folders(results)) == 1


def test_import__of_a_file_that_changes_meanwhile_fails_and_leaves_nothing(tmp_path: Path) -> None:
    path, results = write_vcf(tmp_path / "a.vcf"), tmp_path / "results"

    def write(folder: str) -> Sequence[Any]:
        written = Writing(reader(path))(folder)
        write_vcf(path, 61)
        return written

    with pytest.raises(DataError, match=r"a\.vcf: changed while it was imported\. Run again"):
        kept(results, reader(path), write)
    assert folders(results) == []


def run_job(folder: Path, path: Path) -> Run:
    job = folder / "job.yaml"
    job.write_text(JOB.format(path=path))
    return load(job, results=str(folder / "results"), report=False).run()


def test_job__imports_once_and_reads_from_there(tmp_path: Path) -> None:
    expected = [(record.CHROM, record.POS) for record in VCF(str(COHORT))]
    first = run_job(tmp_path, COHORT)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "results" / "imports").glob("*/*")}
    second = run_job(tmp_path, COHORT)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results" / "imports").glob("*/*")} == made
    for run in (first, second):
        assert run.table("variants").to_polars().select("chromosome", "base_pair_location").rows() == expected
        assert run.table("people").to_polars()["sample_id"].to_list() == VCF(str(COHORT)).samples
        account = run.record["inputs"]["cohort"]
        assert (account["use"], account["rows"], account["counts"]["records"]) == ("vcf", len(expected), len(expected))
    assert first.record["fingerprints"] == second.record["fingerprints"]


def test_job__that_is_only_planned_imports_nothing(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(path=write_vcf(tmp_path / "a.vcf")))
    load(job, results=str(tmp_path / "results")).plan()
    assert not (tmp_path / "results").exists()
    with pytest.raises(PlaceError, match=r"memory://there: input 'cohort' says import: true, and imports are kept in a folder"):
        load(job, results="memory://there").plan()


def test_job__whose_import_fails_leaves_nothing_of_it(tmp_path: Path) -> None:
    path = write_vcf(tmp_path / "a.vcf")
    path.write_text(path.read_text() + "1\t500\trs\tA\tC\t.\t.\t.\tGT\t0/1\t0/x\t0/0\n")
    with pytest.raises(DataError, match=r"a\.vcf: record 1:500, sample 'b': '0/x' is not a genotype"):
        run_job(tmp_path, path)
    assert folders(tmp_path / "results") == []
