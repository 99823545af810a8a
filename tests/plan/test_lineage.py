from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import load
from pipeline.errors import JobError
from pipeline.format import Mark
from pipeline.plan.lineage import Lineage

GENES = 'chr1\tX\tgene\t10\t20\t.\t+\t.\tgene_id "G1"; gene_name "A";\n'
JOB = """
job: builds
results: {folder}/results
inputs:
  cohort: {{format: plink, path: {folder}/c.bed, build: {build}}}
  genes: {{format: gtf, path: {folder}/genes.gtf, build: GRCh38}}
stages:
  - {{use: variant_qc, from: cohort, as: measured}}
  - {{use: annotate_genes, from: {{variants: measured, genes: genes}}, as: named}}
outputs:
  named: {{from: named}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.bed").write_bytes(b"\x6c\x1b\x01\x08")
    (tmp_path / "c.bim").write_text("1\trs1\t0\t15\tA\tC\n")
    (tmp_path / "c.fam").write_text("F\tP\t0\t0\t1\t-9\nF\tQ\t0\t0\t2\t-9\n")
    (tmp_path / "genes.gtf").write_text(GENES)
    return tmp_path


def builds(build: str | None) -> list[Mark]:
    return [Mark("genome builds", build, "so move one of them.")] if build else []


def test_lineage__unknown_and_equal_builds_meet() -> None:
    lineage = Lineage()
    for name, build in (("a", "GRCh37"), ("b", None), ("c", "GRCh37")):
        lineage.add_input(name, builds(build))
    assert lineage.add_stage("first", {"left": "a", "right": "b"}) is None
    assert lineage.add_stage("second", {"left": "first.samples", "right": "c"}) is None


def test_lineage__names_both_inputs_through_stages() -> None:
    lineage = Lineage()
    lineage.add_input("a", builds("GRCh37"))
    lineage.add_input("b", builds("GRCh38"))
    lineage.add_stage("first", {"rows": "a"})
    problem = lineage.add_stage("second", {"left": "first.measured", "right": "b"}) or ""
    assert "GRCh37 (input 'a')" in problem
    assert "GRCh38 (input 'b')" in problem


def test_lineage__marks_of_other_kinds_may_meet() -> None:
    lineage = Lineage()
    lineage.add_input("a", [Mark("genome builds", "GRCh37", ""), Mark("units", "kg", "")])
    lineage.add_input("b", [Mark("units", "t", "so sums are wrong. Convert one of them.")])
    lineage.add_input("c", builds("GRCh37"))
    assert lineage.add_stage("first", {"left": "a", "right": "c"}) is None
    problem = lineage.add_stage("second", {"left": "b", "right": "a"})
    assert problem == "the tables are of different units, t (input 'b') and kg (input 'a'), so sums are wrong. Convert one of them."


def test_plan__refuses_mixed_builds_with_the_place(folder: Path) -> None:
    job = folder / "job.yaml"
    job.write_text(JOB.format(folder=folder, build="hg19"))
    with pytest.raises(JobError, match=r"job.yaml:9:\d+: stages.named.from: .*GRCh37 \(input 'cohort'\) and GRCh38 \(input 'genes'\)"):
        load(job).plan()


def test_plan__takes_builds_that_go_by_other_names(folder: Path) -> None:
    job = folder / "job.yaml"
    job.write_text(JOB.format(folder=folder, build="hg38"))
    assert "gene_name" in load(job).plan().tables["named"].columns
