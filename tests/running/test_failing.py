"""A run that fails, on several workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pipeline import api
from pipeline.errors import DataError

ROOT = Path(__file__).parents[2]


JOB = """
job: broken
results: out
report: false
cluster: {kind: local, workers: 2}
inputs: {rows: {format: parquet, path: "rows/*.parquet"}}
stages:
  - {use: derive, from: rows, as: keyed, columns: {key: id // 2}}
  - {use: expect, from: keyed, as: checked, rules: {ids: {check: unique, columns: [key]}, low: {check: range, column: id, max: 3}}}
  - {use: aggregate, from: checked, as: sums, by: shop, compute: {n: size()}}
outputs: {sums: {from: sums, format: csv}}
"""


@pytest.mark.process
def test_a_run_that_fails__says_nothing_but_its_error(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for part in range(40):
        first = part * 5_000
        pl.DataFrame({"id": range(first, first + 5_000)}).with_columns(shop=pl.col("id") % 7).write_parquet(
            tmp_path / f"rows/{part:02}.parquet"
        )
    (tmp_path / "job.yaml").write_text(JOB)
    command = [sys.executable, "-m", "pipeline.run", "job.yaml", "--quiet"]
    ran = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: job.yaml:")
    assert "Traceback" not in ran.stdout + ran.stderr


def test_what_a_stage_finds_before_its_tasks__has_its_line(tmp_path: Path) -> None:
    header = '##fileformat=VCFv4.2\n##FORMAT=<ID=GT,Number=1,Type=String,Description="g">\n'
    header += "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", ""])
    people = [f"p{number}" for number in range(12)]
    record = "\t".join(["1", "1", "v", "A", "C", ".", ".", ".", "GT", *["0/0"] * 12])
    (tmp_path / "a.vcf").write_text(header + "\t".join(people) + "\n" + record + "\n")
    pl.DataFrame({"sample_id": people, "y": [number % 5 for number in range(12)]}).write_csv(tmp_path / "s.csv")
    job = f"""job: broken
results: {tmp_path / "out"}
inputs: {{g: {{format: vcf, path: {tmp_path / "a.vcf"}}}, s: {{format: csv, path: {tmp_path / "s.csv"}}}}}
stages:
  - {{use: whole_genome_regression, from: {{genotypes: g, samples: s}}, as: fit, traits: [y], folds: 2}}
outputs: {{fit: {{from: fit}}}}
"""
    (tmp_path / "job.yaml").write_text(job)
    with pytest.raises(DataError, match=r"job.yaml:5:5: stages.fit: no autosomal or X variant varies"):
        api.load(tmp_path / "job.yaml").run()
