"""What a run leaves unused of its workers: by looks of which each stands for the time since the one before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.running.idleness import Idleness
from pipeline.running.progress import Threads, progress_of
from tests.harness import two_workers


def clock(*seconds: float) -> Idleness:
    """One that is looked at at these times."""
    times: Iterator[float] = iter(seconds)
    return Idleness(lambda: next(times))


def test_look__counts_time_without_a_task_and_that_in_which_others_wait() -> None:
    seen = clock(10, 11, 13, 14)
    for threads in (Threads(4, 4, 0), Threads(4, 1, 0), Threads(4, 2, 1), Threads(4, 0, 9)):
        seen.look(threads)
    assert seen.document() == {"share": round((1 * 1 + 2 * 2) / 16, 4), "while_tasks_wait": round(1 * 2 / 16, 4)}


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
