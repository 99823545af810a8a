"""Workers on hosts that ssh reaches: a server of our own on 127.0.0.1 stands for the hosts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pipeline.clusters.on_other_machines
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.kinds import cluster_keys
from pipeline.clusters.ssh import Ssh
from pipeline.errors import PlaceError
from tests.clusters.running import LOOKS, PAUSE_S
from tests.clusters.sshd import missing, python_of_hosts, running_sshd
from tests.small import current_run, inside, last_record, published_job, run_main

psutil: Any = pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """How ssh connects to the server."""
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    if why := missing():
        pytest.skip(why)
    with running_sshd(tmp_path_factory.mktemp("sshd")) as options:
        yield options


@pytest.mark.process
def test_ssh__gives_the_result_of_this_machine_by_tls_and_leaves_nothing(connect: dict[str, Any], tmp_path: Path) -> None:
    folder = published_job(tmp_path)
    keys = {"hosts": ["127.0.0.1"], "workers": 2, "threads": 1, "connect_options": connect, "python": python_of_hosts(tmp_path)}
    with inside(folder):
        ended = run_main("job.yaml", "--json", "--out", "other", "--set", f"cluster={cluster_keys(keys)}")
    assert (ended.code, ended.err) == (0, "")
    assert '"dashboard": "http://127.0.0.1:' in ended.out
    assert last_record(folder / "other")["cluster"] == {"kind": "ssh", "workers": 2, "threads_per_worker": 1}
    for name in ("associations", "people"):
        here, there = (pl.read_parquet(current_run(folder / place) / name / "*.parquet") for place in ("results", "other"))
        assert_frame_equal(here, there, rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.process
def test_ssh__talks_tls_by_names_in_order_and_ends_all_that_it_started(connect: dict[str, Any], tmp_path: Path) -> None:
    with open_cluster(Ssh(hosts=["127.0.0.1"], threads=1, connect_options=connect, python=python_of_hosts(tmp_path)), "cpu") as cluster:
        assert str(cluster.client.scheduler.address).startswith("tls://127.0.0.1:")
        known = cluster.client.scheduler_info(n_workers=-1)["workers"]
        assert [(address[:16], about["name"]) for address, about in known.items()] == [("tls://127.0.0.1:", 0)]
        started = [process for process in psutil.process_iter() if "distributed.cli.dask_spec" in command(process)]
        assert len(started) == 2
        assert not any("PRIVATE KEY" in word or "BEGIN" in word for process in started for word in command(process))
        assert len(list(Path(gettempdir()).glob("pipeline-*/key.pem"))) == 2
    for _ in range(LOOKS):
        if not any(process.is_running() for process in started):
            break
        time.sleep(PAUSE_S)
    assert not any(process.is_running() for process in started)
    assert not list(Path(gettempdir()).glob("pipeline-*"))


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
