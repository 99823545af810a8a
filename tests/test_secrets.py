"""No secret of a job stands in what a run leaves or says, whether it succeeds or fails, and what it leaves is the user's alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

SECRETS = {
    name: f"marked{number}-0f1e2d3c4b5a69788796a5b4c3d2e1f0" for number, name in enumerate(("CLINIC_SECRET", "DB_PASSWORD", "TITLE_TOKEN"))
}
LITERAL = "marked9-of-a-job-file-0f1e2d3c4b5a6978"

JOB = f"""\
job: coded
title: "a run of ${{TITLE_TOKEN}}"
description: from sftp://me:{LITERAL}@host/folder and ${{DB_PASSWORD}}
counts: all
cluster: {{kind: local, workers: 2, threads: 1}}
inputs:
  people: {{format: csv, path: people.csv, columns: {{age: string}}}}
  visits: {{format: sql, url: "sqlite:///visits.db", table: visits}}
stages:
  - {{use: pseudonymise, from: people, as: coded, columns: person, secret: "${{CLINIC_SECRET}}"}}
  - {{use: derive, from: coded, as: parsed, columns: {{number: "cast(replace(age, 'x', '') as bigint)"}}}}
  - {{use: pseudonymise, from: visits, as: again, columns: person, secret: {LITERAL}}}
outputs:
  people: {{from: parsed}}
  visits: {{from: again, format: csv}}
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("ages", "more", "code"),
    [
        ("41", [], 0),
        ("old", ["--debug"], 1),
        pytest.param("41", ["--set", "seed=${DB_PASSWORD}"], 2, marks=pytest.mark.soak),
        ("41", ["--set", "inputs.visits.url=postgresql://me:${DB_PASSWORD}@127.0.0.1:1/x"], 2),
    ],
)
def test_run__leaves_and_says_no_secret(ages: str, more: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(f"person,age\nann,{ages}\nzoe,x7\n")
    pl.DataFrame({"person": ["ann"]}).write_database("visits", f"sqlite:///{tmp_path}/visits.db", engine="adbc")
    (tmp_path / "job.yaml").write_text(JOB)
    where = Path(__file__).parents[1]
    environment = {**os.environ, **SECRETS, "PYTHONPATH": str(where), "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.run", "job.yaml", "--json", *more], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    left = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "job.yaml"}
    assert code == 2 or any(name.endswith("run.json") for name in left)
    if code == 0:
        results = [tmp_path / "results", *(tmp_path / "results").rglob("*")]
        assert not [path for path in results if path.lstat().st_mode & 0o077 and not path.is_symlink()]  # workers' files, too
    left |= {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    for what, content in left.items():
        assert not re.search(b"marked[0-9]", content), (what, content[:2000])
