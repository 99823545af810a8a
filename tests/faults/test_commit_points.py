"""A run that is killed at a point of its way to a published result leaves the former or the new one, whole; the next run gives the new."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters.hosts import published_bytes
from tests.faults.killed_at import IN_TASKS, POINTS, PUBLISHED
from tests.faults.light import NEW, light_job
from tests.faults.places import PLACES, ROOT, command
from tests.faults.reading import Reader
from tests.small import current_run, last_record

ALL_POINTS = """
import sys
import pipeline.api, pipeline.running.display, distributed, polars, pyarrow.compute
from pipeline.results.manifest import current_run
from tests.faults.killed_at import POINTS, forked

WORDS = ["job.yaml", "--quiet", "--fresh", "--set", sys.argv[1]]
for point in POINTS:
    former = current_run("results")
    code = forked(WORDS, point)
    print(point, code, "new" if current_run("results") != former else "former", sep="|", flush=True)
print("again", forked(WORDS), sep="|", flush=True)
"""


@pytest.mark.process
def test_kill__at_every_commit_point_of_one_process_leaves_a_whole_result(tmp_path: Path) -> None:
    known = light_job(tmp_path)
    with Reader(tmp_path / "results", known) as reader:
        surroundings = {"PYTHONPATH": str(ROOT), "PATH": ""}
        words = [sys.executable, "-c", ALL_POINTS, NEW]
        ended = subprocess.run(words, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    *killed, again = [line.split("|") for line in ended.stdout.splitlines()]
    assert killed == [[point, "-9", "new" if point in PUBLISHED else "former"] for point in POINTS]
    assert again == ["again", "0"]
    assert reader.torn == []
    assert published_bytes(tmp_path / "results") == known[1]
    assert last_record(tmp_path / "results")["status"] == "done"
    whole = [path for path in (tmp_path / "results" / "runs").iterdir() if (path / "manifest.json").exists()]
    assert len(list((tmp_path / "results" / "runs").iterdir())) <= len(whole) + 1, "only the record of the last that died stays"


@pytest.mark.process
@pytest.mark.soak
@pytest.mark.parametrize("place", ["workers", "scheduler"])
def test_kill__at_every_commit_point_on_workers_leaves_a_whole_result(place: str, tmp_path: Path) -> None:
    known = light_job(tmp_path)
    with PLACES[place](tmp_path) as ground, Reader(tmp_path / "results", known) as reader:
        words = [*command(ground, tmp_path / "job.yaml", tmp_path / "results", NEW), "--fresh"]
        for point in [name for name in POINTS if name not in IN_TASKS]:
            former = current_run(tmp_path / "results")
            program = [*words[: words.index("-m")], "-m", "tests.faults.killed_at", point, *words[words.index("-m") + 2 :]]
            surroundings = {"PYTHONPATH": str(ROOT)}
            ended = subprocess.run(program, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=300, check=False)
            assert ended.returncode == -9, (point, ended.stderr)
            assert (current_run(tmp_path / "results") != former) == (point in PUBLISHED), point
        again = subprocess.run(words, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False)
        assert again.returncode == 0, again.stderr
    assert reader.torn == []
    assert published_bytes(tmp_path / "results") == known[1]
