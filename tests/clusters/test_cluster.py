"""Clusters of every kind that needs no GPU: the same result on each, nothing listens beyond this machine, and all is closed afterwards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.errors import PlaceError
from tests.small import current_run, inside, last_record, published_job, run_main

psutil: Any = pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small job with a result of the default cluster: threads of one process."""
    return published_job(tmp_path_factory.mktemp("published"))


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(300)


def wait_until(reached: Callable[[], bool]) -> None:
    """Look for a state until it is there; one that never comes ends the test after some minutes."""
    for _ in range(6000):
        if reached():
            return
        time.sleep(0.05)
    raise AssertionError("the state that the test waits for did not come")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A scheduler and a worker as a user starts them by hand, on 127.0.0.1: the address and the scheduler file."""
    place = tmp_path_factory.mktemp("scheduler")
    address, file = f"tcp://127.0.0.1:{free_port()}", place / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place}
    dask = [sys.executable, "-m", "dask"]
    first = [*dask, "scheduler", "--host", address, "--no-dashboard", "--no-show", "--scheduler-file", str(file)]
    second = [*dask, "worker", address, "--host", "127.0.0.1", "--nthreads", "2", "--no-nanny", "--no-dashboard"]
    with ended(subprocess.Popen(first, **quiet)), ended(subprocess.Popen(second, **quiet)):
        wait_until(file.exists)
        yield address, file


def outputs(results: Path) -> dict[str, pl.DataFrame]:
    return {name: pl.read_parquet(current_run(results) / name / "*.parquet") for name in ("associations", "people")}


def assert_same_result(folder: Path, cluster: str, kind: str) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--quiet", "--out", "other", "--set", f"cluster={cluster}")
    assert (ended.code, ended.err) == (0, "")
    assert last_record(folder / "other")["cluster"]["kind"] == kind
    for name, frame in outputs(folder / "other").items():
        assert_frame_equal(frame, outputs(folder / "results")[name], rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.process
def test_local__two_workers_give_the_result_of_one(folder: Path) -> None:
    assert_same_result(folder, "{kind: local, workers: 2}", "local")
    assert last_record(folder / "other")["cluster"]["workers"] == 2


def test_scheduler__by_address_and_by_file_gives_the_result_and_is_left_running(folder: Path, scheduler: tuple[str, Path]) -> None:
    address, file = scheduler
    assert_same_result(folder, address, "scheduler")
    assert_same_result(folder, f"{{scheduler_file: {file}}}", "scheduler")


def test_scheduler__a_failed_run_leaves_nothing_on_it(folder: Path, scheduler: tuple[str, Path]) -> None:
    from distributed import Client

    address, _ = scheduler
    with inside(folder):
        run = run_main(
            "job.yaml", "--quiet", "--out", "failed", "--cluster", address, "--set", "stages.people.how=inner", *unmatched(folder)
        )
    assert (run.code, "the samples table has no rows" in run.err) == (1, True)
    with Client(address) as client:
        wait_until(lambda: client.run_on_scheduler(tasks_of) == [])


def tasks_of(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


def unmatched(folder: Path) -> list[str]:
    """Options for a sample sheet of other people."""
    lines = (folder / "sheet.csv").read_text().splitlines()
    (folder / "others.csv").write_text("\n".join([lines[0], *(f"x{line}" for line in lines[1:])]) + "\n")
    return ["--set", "inputs.sheet.path=others.csv"]


def listening() -> set[tuple[str, int]]:
    """Addresses where this process and its children listen; one that ends meanwhile listens nowhere."""
    found = set()
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            found |= {(c.laddr.ip, c.laddr.port) for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    return found


@pytest.mark.process
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("dashboard", [True, False])
def test_local__listens_on_this_machine_alone_and_closes(workers: int | None, dashboard: bool) -> None:
    before, threads = listening(), psutil.Process().children(recursive=True)
    with open_cluster(Local(workers=workers, dashboard=dashboard), "cpu") as cluster:
        opened = listening() - before
        assert opened or workers is None
        assert {host for host, _ in opened} <= {"127.0.0.1"}
        ports = {f"http://127.0.0.1:{port}/status" for _, port in opened}
        assert cluster.dashboard in ports if dashboard else cluster.dashboard is None
        assert (cluster.kind, cluster.workers) == ("local", workers or 1)
        client = cluster.client
    assert client.status == "closed"
    assert listening() <= before
    assert not [
        child for child in psutil.Process().children(recursive=True) if child not in threads and "spawn_main" in " ".join(child.cmdline())
    ]


def test_open_cluster__closes_when_the_run_fails() -> None:
    before = listening()
    with pytest.raises(RuntimeError, match="the run failed"), open_cluster(Local(), "cpu") as cluster:
        raise RuntimeError("the run failed")
    assert cluster.client.status == "closed"
    assert listening() <= before


def test_scheduler__refuses_a_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    spec = Scheduler(scheduler_file=str(file))
    with pytest.raises(PlaceError, match=r"scheduler\.json: No such file or directory\. Start a scheduler that writes it"):
        spec.check()
    for text in ("hello", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(PlaceError, match="not the file of a Dask scheduler"):
            spec.check()


def test_open_cluster__names_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    wait = Client.wait_for_workers
    monkeypatch.setattr(Client, "wait_for_workers", lambda client, count, **_: wait(client, count, 0.1))
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
    with LocalCluster(n_workers=0, **options) as empty:
        spec = Scheduler(address=empty.scheduler_address)
        with pytest.raises(PlaceError, match=r"has no worker\. Start one with: dask worker tcp://127\.0\.0\.1"), open_cluster(spec, "cpu"):
            raise AssertionError


@pytest.mark.process
def test_open_cluster__holds_blas_to_one_thread_where_numpy_came_first() -> None:
    code = (
        "import numpy; from threadpoolctl import threadpool_info\n"
        "from pipeline.clusters.cluster import open_cluster; from pipeline.clusters.local import Local\n"
        "count = lambda: {pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas'}\n"
        "before = count()\n"
        "with open_cluster(Local(dashboard=False), 'cpu'): print(before, count())\n"
        "print(before == count())"
    )
    environment = {name: value for name, value in os.environ.items() if name not in {"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].endswith("{1}")
    assert done.stdout.splitlines()[1] == "True"
