"""Queries over all GPUs: nothing waits for one but what needs it, it has the GPUs to itself, and one that cannot end is an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import pipeline.clusters.workers
import pipeline.tables.spread
from pipeline.clusters.workers import prepare_workers
from pipeline.errors import DataError, RunError
from pipeline.running.progress import progress_of
from pipeline.tables.lanes import LaneClient
from pipeline.tables.part import Part
from pipeline.tables.reserved import is_reserved, reserved
from pipeline.tables.session import ClusterSession

ROWS = pl.LazyFrame({"x": [1, 2]})
LANE_THREAD = "Dask-GPU-Thread"
LOOKS = 1_000
GO_ON = threading.Event()
DONE: list[str] = []


class Engine:
    """In the place of cuDF's: for a query it has workers do `work`, by the client that it was made with."""

    @staticmethod
    def work() -> object:
        """Nothing, unless a test says otherwise."""

    def __init__(self, client: LaneClient) -> None:
        self.client, self.ended = client, threading.Event()

    def collect(self, query: pl.LazyFrame) -> pl.DataFrame:
        self.client.run(Engine.work)
        return query.collect()

    def shutdown(self) -> None:
        self.client.run(nothing)
        self.ended.set()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSession]:
    """A session of two workers, threads of this process, which pass for two GPUs, and of an engine that does nothing on them."""
    from distributed import Client, LocalCluster

    monkeypatch.setattr(pipeline.clusters.workers, "share_memory", lambda: None)
    monkeypatch.setattr(pipeline.tables.spread, "spread_engine", Engine)
    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", lambda query, engine: engine.collect(query))
    GO_ON.clear()
    DONE.clear()
    here = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with LocalCluster(processes=False, n_workers=2, threads_per_worker=2, **here) as cluster, Client(cluster) as client:
        prepare_workers(client, "gpu")
        session = ClusterSession(client, "gpu", 2, 2)
        yield session
        GO_ON.set()
        session.close()


def nothing() -> None:
    """In the place of work, and of a display."""


def wait_in_lane() -> None:
    """On a worker: part of a query, which needs that another stage goes on."""
    DONE.append(threading.current_thread().name.partition("_")[0].partition("-0")[0])
    assert GO_ON.wait(60)


def wait_here() -> bool:
    return GO_ON.wait(60)


def told(what: str, *_before: Any) -> str:
    DONE.append(what)
    return what


def rows_of(part: Part) -> int:
    return part.rows


def begun(session: ClusterSession, query: pl.LazyFrame = ROWS, *needed: Any) -> Any:
    return session.all_gpus.begin(session, "asked", needed, lambda: query)


def until(there: Callable[[], object]) -> None:
    for _ in range(LOOKS):
        if there():
            return
        time.sleep(0.02)
    pytest.fail("it did not come about")


def on_workers(session: ClusterSession, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return list(session.client.run(function, *arguments).values())


def names_reserved(dask_worker: Any) -> list[str]:
    return list(reserved(dask_worker))


def test_what_needs_no_answer__goes_on_beside_a_query_which_has_the_gpus_to_itself(
    session: ClusterSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "work", wait_in_lane)
    answer = begun(session)
    rows = session.submit(rows_of, answer, stage="counted")
    until(lambda: len(DONE) == 2)
    on_gpus = [session.submit(told, "on a GPU", stage="worked") for _ in range(4)]
    written = [session.submit(told, "written", stage="read", on_host=True) for _ in range(4)]
    assert [future.result(timeout=60) for future in written] == ["written"] * 4
    assert [name.startswith(LANE_THREAD) for name in DONE[:2]] == [True, True]
    assert DONE[2:] == ["written"] * 4
    assert answer.status == rows.status == "pending"
    GO_ON.set()
    assert rows.result(timeout=60) == 2
    assert [future.result(timeout=60) for future in on_gpus] == ["on a GPU"] * 4
    assert on_workers(session, names_reserved) == [[], []]


def test_a_query__reserves_no_gpu_before_what_it_needs_is_there(session: ClusterSession) -> None:
    needed = session.submit(wait_here, stage="fitted")
    answer = begun(session, ROWS, needed)
    on_a_gpu = session.submit(told, "on a GPU", stage="worked")  # the other worker's
    assert on_a_gpu.result(timeout=60) == "on a GPU"
    assert on_workers(session, names_reserved) == [[], []]
    GO_ON.set()
    assert answer.result(timeout=60).frame["x"].to_list() == [1, 2]


def test_the_seconds_of_a_query__are_those_of_its_gpus(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "work", lambda: time.sleep(0.5))
    begun(session).result(timeout=60)
    until(lambda: progress_of(session.client, ["asked"]).finished)
    assert progress_of(session.client, ["asked"]).seconds["asked"] >= 1.0


def test_queries__run_one_after_the_other(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_work() -> None:
        DONE.append("begins")
        time.sleep(0.1)
        DONE.append("ends")

    def collected(query: pl.LazyFrame, _engine: Any) -> pl.DataFrame:
        at_work()
        return query.collect()

    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", collected)
    first = begun(session)
    second = begun(session, ROWS.select(pl.col("x") + 1), first)
    third = begun(session)
    assert [future.result(timeout=60).frame["x"].to_list() for future in (third, second, first)] == [[1, 2], [2, 3], [1, 2]]
    assert DONE == ["begins", "ends"] * 3


def test_an_error_of_a_query__fails_what_needs_it(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise MemoryError("out of device memory")

    monkeypatch.setattr(Engine, "work", fails)
    answer = begun(session)
    rows = session.submit(rows_of, answer, stage="counted")
    with pytest.raises(RunError, match=r"stage asked: .*out of device memory"):
        rows.result(timeout=60)
    assert on_workers(session, names_reserved) == [[], []]
    with pytest.raises(RunError, match=r"stage asked: .*out of device memory"):
        session.look()
    assert not session.all_gpus.engine.ended.is_set()


def fit() -> None:
    raise DataError("a value below 0")


def test_an_error_of_what_a_query_needs__is_the_error(session: ClusterSession) -> None:
    answer = begun(session, ROWS, session.submit(fit, stage="fitted"))
    with pytest.raises(DataError, match="stage fitted: a value below 0"):
        answer.result(timeout=60)
    with pytest.raises(DataError, match="stage fitted: a value below 0"):  # whoever drives the run hears of it too
        until(session.look)
    session.all_gpus.rest(nothing)


def test_a_query_with_no_answer__ends_with_one_error(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "work", wait_in_lane)
    monkeypatch.setattr(pipeline.tables.spread, "PATIENCE_S", 0.5)
    with pytest.raises(RunError, match=r"a query over all GPUs did not end: no answer came in 0 s\. Run again, or on one GPU"):
        begun(session).result(timeout=60)


def test_patience__is_for_the_query_and_not_for_tasks_before_it(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.tables.spread, "PATIENCE_S", 0.5)
    before = session.submit(wait_here, stage="worked")
    answer = begun(session)
    until(lambda: sum(on_workers(session, lambda dask_worker: len(reserved(dask_worker)))) == 1)
    time.sleep(1.0)
    GO_ON.set()
    assert before.result(timeout=60)
    assert answer.result(timeout=60).rows == 2


def test_a_query_whose_worker_is_lost__ends_with_its_name(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "work", wait_in_lane)
    answer = begun(session)
    until(lambda: len(DONE) == 2)
    session.client.cluster.scale(0)
    with pytest.raises(RunError, match=r"stage asked: a query over all GPUs did not end: the worker at \S+ was lost while it ran"):
        until(session.look)
    assert answer.status == "pending"


def test_an_answer_that_is_lost_with_its_worker__is_an_error(session: ClusterSession) -> None:
    answer = begun(session)
    assert session.client.submit(rows_of, answer, pure=False).result(timeout=60) == 2
    session.all_gpus.rest(session.look)
    (first,) = next(iter(session.client.who_has(answer).values()))
    session.client.run(close_it, workers=[first], on_error="ignore")
    until(lambda: first not in session.client.scheduler_info(n_workers=-1)["workers"])
    with pytest.raises(RunError, match="the answer of a query over all GPUs was lost with its worker"):
        answer.result(timeout=60)


async def close_it(dask_worker: Any) -> None:
    dask_worker.loop.add_callback(dask_worker.close, nanny=False)


def test_a_run_that_is_given_up__leaves_its_query_behind(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "work", wait_in_lane)
    monkeypatch.setattr(pipeline.tables.spread, "CLOSE_S", 0.1)
    running, waiting = begun(session), begun(session)
    until(lambda: len(DONE) == 2)
    engine = session.all_gpus.engine
    session.close()
    until(lambda: on_workers(session, names_reserved) == [[], []])
    assert {running.status, waiting.status} == {"cancelled"}
    assert not engine.ended.is_set()
    GO_ON.set()
    assert engine.ended.wait(60)
    assert len(DONE) == 2


def test_tasks_that_need_one_another__begin_when_no_query_is_under_way(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "work", wait_in_lane)
    answer = begun(session)
    session.follow = GO_ON.set
    with session.fixed_workers("trained"):
        assert answer.status == "finished"
    assert not any(on_workers(session, is_reserved, "asked"))
