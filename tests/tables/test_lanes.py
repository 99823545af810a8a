"""The lanes of a worker with a GPU: what uses the GPU runs on one thread, what reads, writes or counts beside it on the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline.clusters.workers
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.clusters.scheduler import Scheduler
from pipeline.errors import DataError, RunError
from pipeline.formats.parquet import ParquetOutput
from pipeline.job.spec import Output
from pipeline.job.yaml_tree import Place
from pipeline.running.inputs import input_table
from pipeline.running.writing import submit_output
from pipeline.tables.names import Order
from pipeline.tables.part import Part, Schema
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.table import Table

THREADS, PATIENCE_S = 3, 60
HERE = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "protocol": "tcp"}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSession]:
    """A session of a GPU run in this process, whose worker has three threads beside the GPU's and no allocator to set."""
    monkeypatch.setattr(pipeline.clusters.workers, "share_memory", lambda: None)
    with open_cluster(Local(threads=THREADS, dashboard=False), "gpu") as cluster:
        yield cluster.session()


# What tasks of this process share with the test: they travel as names of this module.
FREE = threading.Event()
ORDER: list[str] = []


@pytest.fixture(autouse=True)
def _afresh() -> None:
    FREE.clear()
    ORDER.clear()


def thread_name() -> str:
    return threading.current_thread().name


def wait_until_free() -> tuple[bool, str]:
    return FREE.wait(PATIENCE_S), thread_name()


def set_free() -> None:
    FREE.set()


def note(what: str) -> None:
    ORDER.append(what)


def fails() -> None:
    raise ZeroDivisionError("no")


@dataclass(frozen=True)
class Slow:
    """A source whose reading is work: three rows and the name of the thread that read them. Without rows its file is damaged."""

    number: int
    rows: int = 3
    cheap: bool = False

    def load(self) -> pl.LazyFrame | Part:
        if not self.rows:
            raise DataError(f"file {self.number} is damaged")
        return Part(pl.DataFrame({"id": [self.number] * self.rows, "read_by": [thread_name()] * self.rows}), counts={"split": 1})

    def interval(self, column: str) -> None:
        return None


def named(part: Part) -> Part:
    return Part(part.frame.with_columns(done_by=pl.lit(thread_name())))


class SeenOutput(ParquetOutput):
    """Parquet, and the thread that wrote it beside it."""

    def write(self, part: Part, axes: Any, path: str) -> None:
        Path(f"{path}.thread").write_text(thread_name())
        super().write(part, axes, path)


def test_sessions__compute_one_task_a_gpu_and_read_with_all_threads(session: ClusterSession) -> None:
    assert (session.threads, session.readers) == (1, THREADS)
    assert list(session.client.nthreads().values()) == [THREADS + 1]


def test_a_table__is_read_and_written_by_the_hosts_threads_and_worked_on_by_the_gpus_one(session: ClusterSession, tmp_path: Path) -> None:
    table = Table.of(session, "given", [Slow(number) for number in range(6)]).named("worked").map_parts(named).in_parts(2)
    parts = [future.result() for future in table.futures()]
    frame = pl.concat([part.frame for part in parts])
    assert frame["id"].to_list() == [number for number in range(6) for _ in range(3)]
    assert frame["done_by"].n_unique() == 1
    assert "GPU" in frame["done_by"][0]
    assert not any("GPU" in name for name in frame["read_by"])
    assert [part.counts for part in parts] == [{"given:split": 3}] * 2
    output = Output("out", "worked", Order(), None, "parquet", SeenOutput(), Place(1, 1))
    for written in submit_output(table, output, None, lambda name: str(tmp_path / name.replace("/", "-"))):
        written.result()
    assert len(writers := [file.read_text() for file in tmp_path.glob("*.thread")]) == 2
    assert not any("GPU" in name for name in writers)


def test_host_tasks__go_on_while_more_tasks_than_threads_wait_for_the_gpu(session: ClusterSession) -> None:
    waiting = [session.submit(wait_until_free, stage="gpu") for _ in range(3 * THREADS)]
    session.submit(set_free, stage="host", on_host=True).result(PATIENCE_S)
    found = session.client.gather(waiting)
    assert all(done for done, _ in found)
    assert len({name for _, name in found}) == 1


def test_a_task_of_the_gpu__goes_before_reading_that_was_submitted_earlier(session: ClusterSession) -> None:
    held = [session.submit(wait_until_free, stage="hold", on_host=True) for _ in range(THREADS + 1)]
    later = [session.submit(note, "host", stage="host", on_host=True) for _ in range(20)]
    first = session.submit(note, "gpu", stage="gpu")
    (worker,) = session.client.cluster.workers.values()
    while first.key not in worker.state.tasks:
        time.sleep(0.01)
    set_free()
    session.client.gather([*held, *later, first])
    assert "gpu" in ORDER[: 2 * THREADS], "threads that come free take the GPU's task first"


def test_what_is_wrong_with_a_file__is_said_by_the_reading_task(session: ClusterSession) -> None:
    table = Table.of(session, "given", [Slow(0), Slow(1, rows=0)]).named("worked").map_parts(named).in_parts(1)
    with pytest.raises(DataError, match="file 1 is damaged") as caught:
        table.futures()[0].result()
    assert caught.value.stage == "given"


def test_a_worker_that_joins_later__takes_what_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(pipeline.clusters.workers, "share_memory", lambda: None)
    monkeypatch.setattr("pipeline.backend.devices._visible_gpus", lambda: ["0"])
    with (
        LocalCluster(processes=False, n_workers=1, threads_per_worker=2, **HERE) as running,
        open_cluster(Scheduler(address=running.scheduler_address), "gpu") as cluster,
    ):
        session = cluster.session()
        assert "GPU" in session.submit(thread_name, stage="one").result(PATIENCE_S)
        running.scale(0)
        cluster.client.sync(gone, cluster.client)
        waiting = session.submit(thread_name, stage="two")
        running.scale(1)
        assert "GPU" in waiting.result(PATIENCE_S)


async def gone(client: Any) -> None:
    """Wait until the scheduler has no worker."""
    import asyncio

    for _ in range(600):
        if not (await client.scheduler.identity())["workers"]:
            return
        await asyncio.sleep(0.05)


class Reader:
    """A reader of so many sources as tasks can run at once, up to eight."""

    def __init__(self, *, cheap: bool = False) -> None:
        self.cheap = cheap

    def axes(self) -> dict[str, pl.DataFrame]:
        return {}

    def sources(self, parallel: int) -> list[Slow]:
        return [Slow(number, cheap=self.cheap) for number in range(min(8, 2 * parallel))]


@pytest.mark.parametrize(("readers", "cheap", "pieces"), [(1, False, [1, 1]), (4, False, [4, 4]), (3, False, [3, 3]), (4, True, [1, 1])])
def test_an_input__has_as_many_parts_as_tasks_compute_and_pieces_as_threads_read(readers: int, cheap: bool, pieces: list[int]) -> None:
    session = Session()
    session.readers = readers
    reader: Any = Reader(cheap=cheap)
    table = input_table(session, "given", reader, Schema(pl.Schema({"id": pl.Int64})))
    assert [len(block.sources) for block in table.blocks] == pieces
    assert [source.number for source in table.sources] == list(range(sum(pieces)))


def test_the_work_of_a_task_that_fails__names_its_stage(session: ClusterSession) -> None:
    for on_host in (False, True):
        with pytest.raises(RunError, match="ZeroDivisionError: no") as caught:
            session.submit(fails, stage="given", on_host=on_host).result()
        assert caught.value.stage == "given"
