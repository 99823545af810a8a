"""Clusters of every kind that needs no GPU: the same result on each, nothing listens beyond this machine, and all is closed afterwards."""

from __future__ import annotations

import gc
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.in_use import Cluster
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.errors import PlaceError
from tests.clusters.running import LOOKS, PAUSE_S, running_scheduler
from tests.small import current_run, inside, last_record, published_job, run_main

psutil: Any = pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small job with a result of the default cluster: threads of one process."""
    return published_job(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A running cluster: the address of its scheduler and the scheduler file."""
    with running_scheduler(tmp_path_factory.mktemp("scheduler"), "--no-nanny") as running:
        yield running


def outputs(results: Path) -> dict[str, pl.DataFrame]:
    return {name: pl.read_parquet(current_run(results) / name / "*.parquet") for name in ("associations", "people")}


def assert_same_result(folder: Path, cluster: str, kind: str) -> None:
    with inside(folder):
        ended = run_main("job.yaml", "--quiet", "--fresh", "--out", "other", "--set", f"cluster={cluster}")
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
    assert ["in plain text" in text for text in last_record(folder / "other")["warnings"]] == [True]


def test_scheduler__a_failed_run_leaves_nothing_on_it(folder: Path, scheduler: tuple[str, Path]) -> None:
    from distributed import Client

    address, _ = scheduler
    with inside(folder):
        run = run_main("job.yaml", "--out", "failed", "--cluster", address, "--set", "stages.people.how=inner", *unmatched(folder))
    assert (run.code, "the samples table has no rows" in run.err) == (1, True)
    said = f"cluster scheduler: {address} and 1 more talk in plain text, so whoever is on this machine can read the data and run code"
    assert said in last_record(folder / "failed")["warnings"][0]
    assert f"warning: {said}" in run.out
    with Client(address) as client:
        for _ in range(LOOKS):
            if not (left := client.run_on_scheduler(tasks_of)):
                break
            time.sleep(PAUSE_S)
    assert left == []


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


@pytest.mark.process
def test_open_cluster__kills_worker_processes_when_its_run_is_interrupted() -> None:
    ended = list[Any]()

    def interrupted(cluster: Cluster) -> None:
        """As Ctrl-C while a task works."""
        ended.extend(nanny.process.process for nanny in cluster.client.cluster.workers.values())
        cluster.client.submit(time.sleep, 600)
        raise KeyboardInterrupt("as Ctrl-C does")

    with pytest.raises(KeyboardInterrupt, match="as Ctrl-C does"), open_cluster(Local(workers=2), "cpu") as cluster:
        interrupted(cluster)
    assert [process.exitcode for process in ended] == [-signal.SIGKILL] * 2


@pytest.mark.process
def test_local__waits_for_processes_that_are_killed_and_not_gone_at_once() -> None:
    """As on a busy machine: no time is left between the end that was asked for and the kill, and between that and the look."""
    with open_cluster(Local(workers=2, threads=1, dashboard=False), "cpu") as cluster:
        nannies = list(cluster.client.cluster.workers.values())
        processes = [psutil.Process(nanny.pid) for nanny in nannies]
        for nanny in nannies:
            nanny.close = partial(nanny.close, timeout=0)
    assert not any(process.is_running() for process in processes)


def test_local__says_in_a_line_that_its_processes_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed_out(**_: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr("distributed.LocalCluster", timed_out)
    told = r"^cluster local: its worker processes could not be started \(TimeoutError\)\. Is the machine short of memory, or very busy\?"
    with pytest.raises(PlaceError, match=told), open_cluster(Local(workers=2), "cpu"):
        raise AssertionError


def test_open_cluster__closes_when_the_run_fails() -> None:
    before = listening()
    with pytest.raises(RuntimeError, match="the run failed"), open_cluster(Local(), "cpu") as cluster:
        raise RuntimeError("the run failed")
    assert cluster.client.status == "closed"
    assert listening() <= before


@pytest.mark.parametrize(("error", "said"), [(TimeoutError("Timeout"), []), (ValueError("no"), ["Future exception was never retrieved"])])
def test_open_cluster__says_nothing_of_waits_that_nobody_waits_for(
    error: Exception, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """As tornado's waits with a limit are left when the loop of a cluster stops."""
    with open_cluster(Local(dashboard=False), "cpu") as cluster:
        loop = cluster.client.loop.asyncio_loop
        left = loop.create_future()
        loop.call_soon_threadsafe(left.set_exception, error)
    assert left.done()
    del left
    gc.collect()
    assert [record.message.splitlines()[0] for record in caplog.records if record.name == "asyncio"] == said


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


def test_scheduler__that_is_frozen_is_said_to_give_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system takes connections to a process that stands still; nobody reads what is said."""
    monkeypatch.setattr("pipeline.clusters.scheduler.CONNECT_TIMEOUT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        address = f"tcp://127.0.0.1:{frozen.getsockname()[1]}"
        with pytest.raises(PlaceError, match=rf"no Dask scheduler answers at {address} within 1 s"), Scheduler(address=address).open("cpu"):
            pass


def test_folder__for_tables_beyond_memory_is_there_as_long_as_the_cluster() -> None:
    with open_cluster(Local(), "cpu") as cluster:
        session = cluster.session()
        assert session.budget is not None
        folder = Path(session.budget.folder)
        session.close()
        assert folder.is_dir()  # a task that is given up may still write there
    assert not folder.exists()
