"""Sessions: what a query over all GPUs is made of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipeline.tables.spread
from pipeline.errors import DataError
from pipeline.formats.parquet import ParquetInput
from pipeline.tables.lanes import open_lane
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession, Session
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
    waiting = [workers.submit(after, 0.2, value, stage="tested") for value in (-1, 1, 2, 3, 4, 5, 6, 7)]
    with pytest.raises(DataError, match="stage tested: a value below 0"):
        list(workers.values(waiting))
    assert waiting[-1].status == "cancelled"


def test_a_value__is_waited_for_and_its_error_raised(workers: ClusterSession) -> None:
    assert workers.value(workers.submit(after, 0.1, 5, stage="tested")) == Session().value(5) == 5
    with pytest.raises(DataError, match="stage tested: a value below 0"):
        workers.value(workers.submit(after, 0.0, -1, stage="tested"))
