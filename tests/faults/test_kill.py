"""A run that is killed, at any moment, leaves the former result current and whole; the next run works at once."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from pipeline.results.manifest import verify
from tests.faults.light import light_job
from tests.small import current_run, inside, last_record, run_main, start

KILLS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("published")
    light_job(place)
    return place


@pytest.mark.process
def test_kill__at_random_moments_leaves_the_former_result_or_the_whole_new_one(folder: Path) -> None:
    moments = random.Random(20261121)
    statuses = set()
    former = current_run(folder / "results")
    for number in range(KILLS):
        process = start("job.yaml", "--json", "--set", f"seed={number}", cwd=folder)
        assert process.stdout is not None
        run = re.search(r"\d{8}T\d{6}Z-[0-9a-f]{6}", process.stdout.readline())
        assert run is not None
        time.sleep(moments.uniform(0, 0.5 * number / KILLS))
        process.kill()
        process.communicate(timeout=300)
        current = current_run(folder / "results")
        assert current in {former, folder / "results" / "runs" / run[0]}
        assert verify(str(current)) == []
        statuses.add("new" if current != former else "former")
        former = current
    assert "former" in statuses
    with inside(folder):  # the lock of a dead run is free
        assert run_main("job.yaml", "--quiet", "--fresh").code == 0
    assert current_run(folder / "results") != former
    assert last_record(folder / "results")["status"] == "done"
    left = [path for path in (folder / "results" / "runs").iterdir() if not (path / "manifest.json").exists()]
    assert len(left) <= 1, "runs that died are removed, but for the record of the last"
