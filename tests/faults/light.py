"""A job of tables alone, whose runs are over soon."""

from __future__ import annotations

from pathlib import Path

from tests.clusters.hosts import published_bytes
from tests.small import inside, run_main

NEW = "stages.older.columns.decades=age / 5"  # in runs that are disturbed; the result that stands is of the job as it is
JOB = """\
job: light
seed: 7
results: results
report: false
cluster: {kind: local, dashboard: false}
inputs:
  sheet: {format: csv, path: sheet.csv, columns: {person: int64, age: float64, place: string}}
stages:
  - {use: derive, from: sheet, as: older, columns: {decades: age / 10}}
  - {use: aggregate, from: older, as: counted, by: place, compute: {most: max(decades)}}
outputs:
  people: {from: older}
  counts: {from: counted, sort_by: place}
"""


def write_light_job(folder: Path) -> Path:
    """Write it and its input: its file."""
    rows = [f"{number},{20 + number % 60},{'north' if number % 3 else 'south'}" for number in range(2_000)]
    (folder / "sheet.csv").write_text("\n".join(["person,age,place", *rows]) + "\n")
    (folder / "job.yaml").write_text(JOB.replace("path: sheet.csv", f"path: {folder / 'sheet.csv'}"))
    return folder / "job.yaml"


def light_job(folder: Path) -> list[dict[str, str]]:
    """Write it and publish its result; the bytes of that and of the `NEW` one."""
    write_light_job(folder)
    with inside(folder):
        assert run_main("job.yaml", "--quiet", "--out", "other", "--set", NEW).code == 0
        assert run_main("job.yaml", "--quiet").code == 0
    return [published_bytes(folder / "results"), published_bytes(folder / "other")]
