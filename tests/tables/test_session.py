"""Sessions: what a query over all GPUs is made of."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline.tables.spread
from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.errors import DataError
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.lanes import open_lane
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.steps import Step
from pipeline.tables.table import Table


@pytest.fixture
def threads() -> Iterator[ClusterSession]:
    """A session that takes its one worker of threads for two GPUs."""
    from distributed import Client, LocalCluster

    here = "127.0.0.1:0"
    with (
        LocalCluster(processes=False, n_workers=1, dashboard_address=here, worker_dashboard_address=here) as cluster,
        Client(cluster) as client,
    ):
        client.run(opened)
        yield ClusterSession(client, "gpu", 2, 1)


async def opened(dask_worker: Any) -> None:
    """Give the worker its lane, as a run on GPUs does."""
    await open_lane(dask_worker)


def sums(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.group_by("k").agg(pl.col("v").sum())


def scaled(rows: pl.LazyFrame, fitted: Part) -> pl.LazyFrame:
    return rows.with_columns(v=pl.col("v") * fitted.frame["factor"].item())


def test_a_query_over_all_gpus__takes_what_earlier_tasks_fitted(
    tmp_path: Path, threads: ClusterSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        pl.DataFrame({"k": [1, 2], "v": [i, i]}).write_parquet(tmp_path / f"{i}.parquet")
    monkeypatch.setattr(pipeline.tables.spread, "spread_engine", lambda _client: None)
    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", lambda query, _engine: query.collect())
    fitted = threads.submit(Part, pl.DataFrame({"factor": [10]}), stage="fit")
    table = Table.of(threads, "t", ParquetInput(path=(str(tmp_path),), parts=3).sources(1)).map(scaled, fitted).exchange(["k"])
    assert len(table.blocks) == 1
    frame = table.map(lambda rows: rows.group_by("k").agg(pl.col("v").sum())).futures()[0].result().frame
    assert dict(frame.rows()) == {1: 30, 2: 30}


def test_exchange__on_several_gpus_is_one_query_of_the_spread_engine(
    tmp_path: Path, threads: ClusterSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        pl.DataFrame({"k": [1, 2, i], "v": [i, i, i]}).write_parquet(tmp_path / f"{i}.parquet")
    asked: list[object] = []

    class Engine:
        def shutdown(self) -> None:
            asked.append("shutdown")

    def collected_by(query: pl.LazyFrame, engine: object) -> pl.DataFrame:
        asked.append(engine)
        return query.collect()

    monkeypatch.setattr(pipeline.tables.spread, "spread_engine", lambda _client: Engine())
    monkeypatch.setattr(pipeline.tables.spread, "collect_spread", collected_by)
    table = Table.of(threads, "t", ParquetInput(path=str(tmp_path), parts=3).sources(1)).exchange(["k"]).map(sums)
    assert len(table.blocks) == 1
    frame = table.futures()[0].result().frame
    threads.close()
    assert dict(zip(frame["k"], frame["v"], strict=True)) == {0: 0, 1: 4, 2: 5}
    assert isinstance(asked[0], Engine)
    assert asked[1:] == ["shutdown"]


def after(seconds: float, value: int) -> int:
    time.sleep(seconds)
    if value < 0:
        raise DataError("a value below 0")
    return value


def test_values__come_as_they_are_done_each_with_its_number(workers: ClusterSession) -> None:
    slow, quick = (workers.submit(after, seconds, value, stage="tested") for seconds, value in ((1.0, 5), (0.0, 7)))
    assert list(workers.values([slow, quick])) == [(1, 7), (0, 5)]
    assert list(Session().values([5, 7])) == [(0, 5), (1, 7)]


def test_values__of_which_one_failed_raise_its_error_and_give_up_the_others(workers: ClusterSession) -> None:
    waiting = [workers.submit(after, 0.2, value, stage="tested") for value in (-1, *range(1, 60))]
    with pytest.raises(DataError, match="stage tested: a value below 0"):
        list(workers.values(waiting))
    assert waiting[-1].status == "cancelled"


def test_a_value__is_waited_for_and_its_error_raised(workers: ClusterSession) -> None:
    assert workers.value(workers.submit(after, 0.1, 5, stage="tested")) == Session().value(5) == 5
    with pytest.raises(DataError, match="stage tested: a value below 0"):
        workers.value(workers.submit(after, 0.0, -1, stage="tested"))


ORDER: list[str] = []
FREE = threading.Event()


def note(what: str | Step) -> None:
    """One task: it waits until all are submitted, and says that it ran."""
    FREE.wait(60)
    ORDER.append(what if isinstance(what, str) else f"{what.source.rows} rows")


def known_tasks(dask_scheduler: Any) -> int:
    """On the scheduler: how many tasks it has heard of."""
    return len(dask_scheduler.tasks)


@dataclass(frozen=True)
class File:
    """A source of so many rows, which is never read."""

    rows: int
    cheap: bool = True

    def load(self) -> pl.LazyFrame | Part:
        raise AssertionError("nobody reads it")

    def interval(self, column: str) -> None:
        return None

    def places(self) -> list[tuple[str, int, int | None]]:
        return [("file", 0, self.rows)]


def test_submit__what_is_deeper_in_the_plan_goes_first_and_in_one_stage_what_reads_more_rows() -> None:
    with open_cluster(Local(threads=1, dashboard=False), "cpu") as cluster:
        session, futures = cluster.session(), []
        ORDER.clear()
        FREE.clear()
        less, more = (Step("read", "t", source=File(rows)) for rows in (10, 2_000_000))
        for depth, what in ((9, "first"), (9, "sent ahead"), (1, "early"), (1, less), (1, more), (3, "late")):
            session.depth = depth
            futures.append(session.submit(note, what, stage="t"))
            while session.client.run_on_scheduler(known_tasks) < len(futures):
                pass
        FREE.set()
        session.client.gather(futures)
    assert ORDER == ["first", "sent ahead", "late", "2000000 rows", "10 rows", "early"]
