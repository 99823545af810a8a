"""A scheduler that dies under a run fails it by one message, and the record says so."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.clusters import cluster, frozen, scheduler
from pipeline.clusters.cluster import open_cluster
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
@pytest.mark.parametrize(
    ("module", "called", "said"),
    [
        pytest.param(scheduler, "_answer", r"no Dask scheduler answers at tcp", marks=pytest.mark.soak),
        (scheduler, "refuse_plain", r"no Dask scheduler answers at tcp"),
        (cluster, "all_alike", r"cluster: the scheduler at tcp.* has not answered for [0-9]+ s\. Start it again, and run again\."),
        pytest.param(
            cluster,
            "prepare_workers",
            r"cluster: the scheduler at tcp.* has not answered for [0-9]+ s\. Start it again, and run again\.",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_lost_scheduler__frozen_before_a_run_has_begun_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, called: str, said: str
) -> None:
    """Once it has answered, once it has taken the client, and while workers are told of the run: `called` is what comes next."""
    from distributed import Client

    monkeypatch.setattr(scheduler, "CONNECT_TIMEOUT_S", 3)
    hasty = frozen.Patience(scheduler=2.0, look=0.2, answer=0.5)
    monkeypatch.setattr(cluster, "watched", partial(frozen.watched, patience=hasty))
    with running_scheduler(tmp_path) as (address, _):
        with Client(address) as client:
            client.wait_for_workers(1, timeout=60)
            pid = client.run_on_scheduler(os.getpid)
        real = getattr(module, called)

        def freeze(*given: Any, **named: Any) -> Any:
            os.kill(pid, signal.SIGSTOP)
            return real(*given, **named)

        monkeypatch.setattr(module, called, freeze)
        began = time.monotonic()
        try:
            with pytest.raises(PlaceError, match=said), open_cluster(scheduler.Scheduler(kind="scheduler", address=address), "cpu"):
                raise AssertionError("a frozen scheduler has a run begin")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - began < 20
