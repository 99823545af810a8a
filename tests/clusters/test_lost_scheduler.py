"""A scheduler that dies under a run fails it by one message, and the record says so."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.scheduler import Scheduler
from pipeline.errors import PlaceError
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


@pytest.mark.process
def test_frozen_scheduler__is_an_error_within_seconds_before_anybody_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that freezes when a client has connected to it, and before that asks for its workers."""
    from distributed import Client

    with running_scheduler(tmp_path) as (address, _):
        with Client(address) as client:
            pid = client.run_on_scheduler(os.getpid)
            client.wait_for_workers(1, timeout=60)

        def asked(*given: Any) -> list[str]:
            os.kill(pid, signal.SIGSTOP)
            return first_workers(*given)

        first_workers = Scheduler._first_workers
        monkeypatch.setattr("pipeline.clusters.scheduler.CONNECT_TIMEOUT_S", 1)
        monkeypatch.setattr(Scheduler, "_first_workers", asked)
        began = time.monotonic()
        try:
            with (
                pytest.raises(PlaceError, match=rf"no Dask scheduler answers at {address} within 1 s"),
                open_cluster(Scheduler(address=address, insecure=True), "cpu"),
            ):
                pass
        finally:
            os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - began < 30
