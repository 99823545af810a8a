"""Queries over all GPUs: tasks of the GPUs end first, workers may be silent meanwhile, and one that cannot end is an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

import pipeline.clusters.workers
import pipeline.tables.spread
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.errors import RunError
from pipeline.tables.session import ClusterSession
from pipeline.tables.spread import SILENCE_S, AllGpus

ROWS = pl.LazyFrame({"x": [1, 2]})
GO_ON = threading.Event()
DONE: list[str] = []


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSession]:
    """A session of a GPU run in this process, with no allocator to set and no engine over all GPUs to make."""
    monkeypatch.setattr(pipeline.clusters.workers, "share_memory", lambda: None)
    monkeypatch.setattr(pipeline.tables.spread, "spread_engine", lambda _client: None)
    GO_ON.clear()
    DONE.clear()
    with open_cluster(Local(threads=2, dashboard=False), "gpu") as cluster:
        yield cluster.session()


def ttl(session: ClusterSession) -> float | None:
    found: float | None = session.client.cluster.scheduler.worker_ttl
    return found


def slow(what: str) -> None:
    GO_ON.wait(60)
    time.sleep(0.3)
    DONE.append(what)


def after(_before: Any, what: str) -> None:
    DONE.append(what)


def nothing() -> None:
    """In the place of a display."""


def test_a_query__waits_for_the_gpus_tasks_and_silence_is_allowed_while_it_runs(
    session: ClusterSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def answer(query: pl.LazyFrame, _engine: Any) -> pl.DataFrame:
        seen.extend([list(DONE), ttl(session)])
        return query.collect()

    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", answer)
    before = ttl(session)
    first = session.submit(slow, "read", stage="given", on_host=True)
    kept = [first, session.submit(after, first, "worked", stage="worked")]
    frame = AllGpus(session.client).collect(ROWS, GO_ON.set)
    assert frame["x"].to_list() == [1, 2]
    assert seen == [["read", "worked"], SILENCE_S]
    assert ttl(session) == before
    assert len(kept) == 2


def test_an_error_of_a_query__is_raised_and_the_workers_are_watched_again(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_query: Any, _engine: Any) -> Any:
        raise MemoryError("out of device memory")

    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", fails)
    before = ttl(session)
    with pytest.raises(MemoryError, match="out of device memory"):
        AllGpus(session.client).collect(ROWS, nothing)
    assert ttl(session) == before


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A query that says that it has begun, and ends with its test."""
    over = threading.Event()

    def wait(_query: Any, _engine: Any) -> None:
        DONE.append("begun")
        over.wait(60)

    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", wait)
    yield
    over.set()


@pytest.mark.usefixtures("endless")
def test_a_query_with_no_answer__ends_with_one_error(session: ClusterSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.tables.spread, "PATIENCE_S", 0.5)
    before, gpus = ttl(session), AllGpus(session.client)
    with pytest.raises(RunError, match=r"a query over all GPUs did not end: no answer came in 0 s\. Run again, or on one GPU"):
        gpus.collect(ROWS, nothing)
    assert ttl(session) == before
    gpus.close()


@pytest.mark.usefixtures("endless")
def test_a_query_whose_worker_is_lost__ends_with_its_name(session: ClusterSession) -> None:
    cluster = session.client.cluster
    (address,) = cluster.scheduler.workers

    def lose() -> None:
        if DONE == ["begun"]:
            DONE.append("lost")
            cluster.scale(0)

    with pytest.raises(RunError, match=rf"a query over all GPUs did not end: the worker at {address} was lost while it ran"):
        AllGpus(session.client).collect(ROWS, lose)
