"""A scheduler that dies under a run fails it by one message, and the record says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.clusters.running import running_scheduler
from tests.small import last_record, start

ROOT = Path(__file__).parents[2]


@pytest.mark.process
def test_lost_scheduler__fails_the_run_by_one_message(tmp_path: Path) -> None:
    from distributed import Client

    with running_scheduler(tmp_path) as (address, _):
        with Client(address) as client:
            pid = client.run_on_scheduler(os.getpid)
        run = start(str(ROOT / "jobs" / "loans.yaml"), "--out", str(tmp_path / "results"), "--set", f"cluster={address}", cwd=ROOT)
        assert run.stdout is not None
        run.stdout.readline()
        os.kill(pid, signal.SIGKILL)
        _, said = run.communicate(timeout=300)
    assert len(said.splitlines()) == 2, said
    first, second = said.splitlines()
    assert run.returncode == 1
    assert first.startswith(f"error: cluster: the scheduler at {address} is gone")
    assert first.endswith("Start it again, and run again.")
    assert second.endswith("run.json has the record of this run; no result was published.")
    record = last_record(tmp_path / "results")
    assert (record["status"], f"error: {record['error']}") == ("failed", first)
