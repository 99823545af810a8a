"""What a run leaves unused of its workers: by looks of which each stands for the time since the one before."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.clusters.cluster import open_cluster
from pipeline.clusters.local import Local
from pipeline.clusters.workers import MOVE_MS, move_soon
from pipeline.running.idleness import Idleness
from pipeline.running.progress import Threads, progress_of
from tests.harness import two_workers


def clock(*seconds: float) -> Idleness:
    """One that is looked at at these times."""
    times: Iterator[float] = iter(seconds)
    return Idleness(lambda: next(times))


def test_look__counts_time_without_a_task_and_that_in_which_others_wait() -> None:
    seen = clock(10, 11, 13, 14, 16)
    for threads in (Threads(4, 4, 0), Threads(4, 1, 0), Threads(4, 2, 1), Threads(4, 0, 9), Threads(4, 1, 0)):
        seen.look(threads)
    wanted = {"share": round((1 * 1 + 2 * 2 + 2 * 1) / 24, 4), "while_tasks_wait": round(1 * 2 / 24, 4), "while_tasks_keep_waiting": 0.0}
    assert seen.document() == wanted


def test_look__tells_what_waits_at_two_looks_in_a_row_from_what_is_moved_at_once() -> None:
    seen = clock(0, 1, 2, 3)
    for threads in (Threads(4, 4, 0), Threads(4, 3, 2), Threads(4, 2, 4), Threads(4, 1, 1)):
        seen.look(threads)
    assert seen.document() == {"share": 0.5, "while_tasks_wait": round(5 / 12, 4), "while_tasks_keep_waiting": round(3 / 12, 4)}


def test_document__is_empty_of_a_run_that_was_not_looked_at() -> None:
    seen = clock(3)
    assert seen.document() == {}
    seen.look(Threads(2, 2, 0))
    assert seen.document() == {}


@pytest.mark.process
def test_progress__tells_threads_that_have_no_task_and_tasks_that_wait() -> None:
    from distributed import Event

    with two_workers() as session:
        first = min(session.client.scheduler_info()["workers"])
        go = Event("go", session.client)
        tasks = [session.client.submit(lambda: Event("go").wait(), pure=False, workers=[first]) for _ in range(3)]
        while (seen := progress_of(session.client, []).threads) != Threads(2, 1, 2):
            assert seen is not None
        go.set()
        session.client.gather(tasks)
        assert progress_of(session.client, []).threads == Threads(2, 2, 0)


def fitted(mine: str, others: str, part: bytes) -> tuple[str, bool]:
    """What a long task does here: it ends when another one is under way; where it ran, and whether the other one came."""
    from distributed import Event, get_worker

    Event(mine).set()
    return str(get_worker().address), bool(Event(others).wait(timeout=60)) and bool(part)


@pytest.mark.process
def test_tasks__of_one_held_part_run_on_all_workers_though_the_stage_had_short_ones() -> None:
    with open_cluster(Local(workers=2, threads=1, dashboard=False), "cpu") as cluster:
        session = cluster.session()
        part = session.submit(bytes, 4_000_000, stage="walked")
        short = [session.submit(len, part, stage="walked") for _ in range(20)]
        cluster.client.gather(short)
        ends = [session.submit(fitted, mine, others, part, stage="walked") for mine, others in (("a", "b"), ("b", "a"))]
        (one, came), (other, too) = cluster.client.gather(ends)
        known = cluster.client.run_on_scheduler(names_and_looks)
    assert one != other
    assert came
    assert too
    assert known == ({"walked.bytes", "walked.len", "walked.fitted"}, MOVE_MS)


def names_and_looks(dask_scheduler: Any) -> tuple[set[str], float]:
    """On the scheduler: what kinds of tasks it tells apart, and how often it looks for some to move, in milliseconds."""
    return {name for name in dask_scheduler.task_prefixes if "." in name}, dask_scheduler.periodic_callbacks["stealing"].callback_time


def test_move_soon__leaves_a_cluster_that_moves_nothing_or_sooner_as_it_is() -> None:
    moves_nothing = SimpleNamespace(periodic_callbacks={})
    move_soon(100.0, moves_nothing)
    sooner = SimpleNamespace(periodic_callbacks={"stealing": SimpleNamespace(callback_time=20.0)})
    move_soon(100.0, sooner)
    assert moves_nothing.periodic_callbacks == {}
    assert sooner.periodic_callbacks["stealing"].callback_time == 20.0
