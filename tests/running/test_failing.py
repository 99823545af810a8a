"""A run that fails, on several workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

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
