"""Workers on hosts that ssh reaches: a server of our own on 127.0.0.1 stands for the hosts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline.clusters.on_other_machines
from pipeline.api import load
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.ssh import Ssh
from pipeline.errors import PlaceError
from pipeline.running.display import Quiet
from tests.clusters.running import LOOKS, PAUSE_S
from tests.clusters.sshd import missing, python_of_hosts, running_sshd
from tests.small import current_run, inside, last_record, published_job

psutil: Any = pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """How ssh connects to the server."""
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    if why := missing():
        pytest.skip(why)
    with running_sshd(tmp_path_factory.mktemp("sshd")) as options:
        yield options


class Looking(Quiet):
    """A display that looks, when a run begins, at what was started for it."""

    def __init__(self) -> None:
        self.dashboard: str | None = None
        self.processes = list[Any]()
        self.keys = list[Path]()

    def started(self, run: str, place: str, dashboard: str | None, stages: list[str]) -> None:
        self.dashboard = dashboard
        self.processes = [process for process in psutil.process_iter() if "distributed.cli.dask_spec" in command(process)]
        self.keys = list(Path(gettempdir()).glob("pipeline-*/key.pem"))


@pytest.mark.process
def test_ssh__gives_the_result_of_this_machine_by_tls_and_leaves_nothing(connect: dict[str, Any], tmp_path: Path) -> None:
    folder, looking = published_job(tmp_path), Looking()
    keys = {"hosts": ["127.0.0.1"], "workers": 2, "threads": 1, "connect_options": connect, "python": python_of_hosts(tmp_path)}
    with inside(folder):
        load("job.yaml", cluster=keys, results="other").run(looking)
    assert last_record(folder / "other")["cluster"] == {"kind": "ssh", "workers": 2, "threads_per_worker": 1, "dask": True}
    for name in ("associations", "people"):
        here, there = (pl.read_parquet(current_run(folder / place) / name / "*.parquet") for place in ("results", "other"))
        assert_frame_equal(here, there, rel_tol=1e-12, abs_tol=1e-12)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/status \(on 127\.0\.0\.1\)", looking.dashboard or "")
    assert (len(looking.processes), len(looking.keys)) == (3, 3)
    for _ in range(LOOKS):
        if not any(process.is_running() for process in looking.processes):
            break
        time.sleep(PAUSE_S)
    assert not any(process.is_running() for process in looking.processes)
    assert not any(key.parent.exists() for key in looking.keys)


def command(process: Any) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_ssh__says_why_it_does_not_start(connect: dict[str, Any]) -> None:
    absent = Ssh(hosts=["127.0.0.1"], connect_options=connect, python="/nowhere/python")
    with (
        pytest.raises(PlaceError, match=r"cluster ssh: it could not be started: .*127\.0\.0\.1: .*/nowhere/python"),
        open_cluster(absent, "cpu"),
    ):
        raise AssertionError
    closed = Ssh(hosts=["127.0.0.1"], connect_options={**connect, "port": 1})
    with pytest.raises(PlaceError, match=r"127\.0\.0\.1: ssh does not get there: "), open_cluster(closed, "cpu"):
        raise AssertionError


def test_ssh__is_refused_where_its_library_or_that_of_certificates_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.clusters.on_other_machines, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"cluster ssh: asyncssh is not installed here\. Install it with: pip install '\.\[ssh\]'"):
        Ssh(hosts=["a"]).check()
    monkeypatch.undo()
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    monkeypatch.setattr("pipeline.clusters.encryption.find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match="cluster ssh: certificates for a run are made by cryptography"):
        Ssh(hosts=["a"]).check()
    Ssh(hosts=["a"], insecure=True).check()
    assert Ssh(hosts=["a"], insecure=True).security() is None
