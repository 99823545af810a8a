"""Workers that come and go in the middle of a run change nothing in what it publishes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline import api
from tests.clusters.hosts import published_bytes
from tests.clusters.running import one_more_worker, running_scheduler

ROOT = Path(__file__).parents[2]
JOB = ROOT / "jobs" / "loans.yaml"


@pytest.mark.process
def test_loans__give_the_same_bytes_while_one_worker_is_killed_and_two_join(tmp_path: Path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    api.load(JOB, results=str(one), cluster__dashboard=False).run()
    said = list[str]()
    with running_scheduler(tmp_path) as (address, _), one_more_worker(address, tmp_path) as first, ExitStack() as more:
        words = [sys.executable, "-m", "pipeline.run", str(JOB), "--out", str(several), "--set", f"cluster={address}"]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            assert run.stdout is not None
            for line in run.stdout:
                said.append(line)
                if "tasks," in line and first.returncode is None:  # the first stage that is done
                    for _ in range(2):
                        more.enter_context(one_more_worker(address, tmp_path, awaited=False))
                    first.kill()
                    first.wait(60)
        assert first.returncode == -9, "".join(said)
    assert run.returncode == 0, "".join(said)
    assert published_bytes(several) == published_bytes(one)
