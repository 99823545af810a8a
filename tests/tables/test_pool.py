"""Threads in place of a cluster: what waits for what, what fails with what, and what is given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import RunError
from pipeline.formats.parquet import ParquetOutput
from pipeline.job.spec import Output
from pipeline.job.yaml_tree import Place
from pipeline.running.writing import submit_output
from pipeline.tables.measured import Measured
from pipeline.tables.names import Order
from pipeline.tables.part import Part
from pipeline.tables.pool import Pool, Promise, this_promise
from pipeline.tables.pool_session import PoolSession
from pipeline.tables.rounds import Round, Rounds, go_on
from pipeline.tables.table import Table

WAIT_S = 60.0


@pytest.fixture
def pool() -> Iterator[Pool]:
    found = Pool(2)
    yield found
    found.close(WAIT_S)


def added(*numbers: Any) -> int:
    return sum(
        sum(number.values()) if isinstance(number, dict) else sum(number) if isinstance(number, list) else number for number in numbers
    )


def failing() -> int:
    raise ValueError("no such number")


def test_a_task__has_the_values_of_promises_wherever_they_stand(pool: Pool) -> None:
    one, two = pool.submit("a.added-1", added, 1), pool.submit("a.added-2", added, 2)
    assert pool.submit("b.added-1", added, one, [one, two], {"x": two}).result(WAIT_S) == 6
    assert pool.gather([[one, two], [two]]) == [[1, 2], [2]]


def test_tasks__that_wait_for_others_keep_no_thread(pool: Pool) -> None:
    go, begun = threading.Event(), threading.Event()
    first = pool.submit("a.wait-1", go.wait, WAIT_S)
    chain = [pool.submit("b.added-1", added, first)]
    for number in range(20):
        chain.append(pool.submit(f"b.added-{number}", added, chain[-1], 1))
    pool.submit("c.set-1", begun.set)
    assert begun.wait(WAIT_S)
    assert {promise.status for promise in chain} == {"pending"}
    go.set()
    assert chain[-1].result(WAIT_S) == 21
    seen, running = pool.now()
    assert (seen["b"].tasks, seen["b"].done, running) == (21, 21, [])
    assert len(pool.get_task_stream()) == 23


def test_tasks__that_wait_for_a_thread_go_by_their_priority_and_then_as_they_came() -> None:
    pool, begun, go, order = Pool(1), threading.Event(), threading.Event(), list[str]()

    def hold() -> bool:
        begun.set()
        return go.wait(WAIT_S)

    held = pool.submit("a.hold-1", hold)
    assert begun.wait(WAIT_S)
    asked = {"b.one-1": 1.0, "b.two-1": 2.5, "b.one-2": 1.0, "b.three-1": 3.0, "b.two-2": 2.5}
    given = [pool.submit(key, order.append, key, priority=priority) for key, priority in asked.items()]
    fed = [pool.submit(f"c-{at}", lambda _, at=at: order.append(f"c-{at}"), held, priority=at) for at in (2, 9)]
    go.set()
    for promise in [*given, *fed]:
        promise.result(WAIT_S)
    pool.close(WAIT_S)
    assert order == ["c-9", "b.three-1", "b.two-1", "b.two-2", "c-2", "b.one-1", "b.one-2"]


def test_a_task__whose_input_failed_fails_with_the_same_error(pool: Pool) -> None:
    failed = pool.submit("a.failing-1", failing)
    after = pool.submit("b.added-1", added, [failed])
    assert after.exception(WAIT_S) is failed.exception(WAIT_S)
    assert (failed.status, after.status) == ("error", "error")


def test_what_is_given_up__never_begins_and_is_told_where_it_runs(pool: Pool) -> None:
    begun, told, ran = threading.Event(), threading.Event(), list[int]()

    def long() -> None:
        begun.set()
        while True:
            try:
                go_on("long")
            except RunError:
                told.set()
                raise

    running = pool.submit("a.long-1", long)
    later = pool.submit("b.append-1", ran.append, running)
    assert begun.wait(WAIT_S)
    pool.cancel([later, running])
    assert told.wait(WAIT_S)
    assert [promise.status for promise in (running, later)] == ["cancelled", "cancelled"]
    with pytest.raises(RunError, match="interrupted"):
        running.result(WAIT_S)
    assert ran == []


def test_a_promise__of_one_that_was_given_up_is_not_kept(pool: Pool) -> None:
    go = threading.Event()
    for number in range(2):
        pool.submit(f"a.wait-{number}", go.wait, WAIT_S)
    later = pool.submit("b.added-1", added, 1)
    after = pool.submit("c.added-1", added, later)
    pool.cancel([later])
    go.set()
    with pytest.raises(CancelledError, match=r"^$"):
        after.result(WAIT_S)
    assert after.status == "cancelled"


def test_a_long_task__says_its_rounds(pool: Pool) -> None:
    go, said = threading.Event(), list[Promise | None]()

    def training() -> None:
        Rounds("model").done(Round(3, 10, {"loss": 0.5}))
        said.append(this_promise())
        go.wait(WAIT_S)

    training_done = pool.submit("model.training-1", training)
    while not said:
        pool.rest([training_done], 0.01)
    assert [promise.said for promise in pool.now()[1]] == [{"at": 3, "of": 10, "figures": {"loss": 0.5}}]
    go.set()
    training_done.result(WAIT_S)
    assert this_promise() is None


def test_a_session__gives_values_as_they_come_and_gives_the_others_up(pool: Pool) -> None:
    session, go = PoolSession(pool, "cpu"), threading.Event()
    first, fails = session.submit(added, 1, stage="sum"), session.submit(failing, stage="sum")
    assert session.value([first, first]) == [1, 1]
    waits = session.submit(go.wait, WAIT_S, stage="sum")
    with pytest.raises(RunError, match="sum: ValueError: no such number"):
        dict(session.values([waits, fails]))
    assert waits.status == "cancelled"
    go.set()
    assert session.submitted["sum"] == 3


def test_a_reduction__uses_a_part_before_it_makes_the_next() -> None:
    """All parts at once are the whole table."""
    seen = list[str]()

    def made(part: Part) -> Part:
        """The part, which now takes memory."""
        seen.append("made")
        return part

    def used(part: Part) -> int:
        """Its rows."""
        seen.append("used")
        return part.rows

    session = PoolSession(one := Pool(1), "cpu")
    rows = Table.of(session, "t", [Part(pl.DataFrame({"i": [i, i]})) for i in range(20)], name="numbers")
    assert session.value(rows.map_parts(made).reduce(used, sum)) == 40
    assert seen == ["made", "used"] * 20
    assert [session.value(measured) for _, measured in session.accounts] == [Measured(40, 320, 20, {})]
    one.close(WAIT_S)


def test_an_output__is_written_part_by_part_as_its_parts_are_made(tmp_path: Path) -> None:
    """Parts that wait to be written are the whole output in memory."""
    made = list[int]()

    def counted(part: Part) -> Part:
        """The part, and how many files there were when it was made."""
        made.append(len(list(tmp_path.iterdir())))
        return part

    session = PoolSession(one := Pool(1), "cpu")
    rows = Table.of(session, "t", [Part(pl.DataFrame({"i": [i, i]})) for i in range(20)]).map_parts(counted)
    output = Output("out", "t", Order(), None, "parquet", ParquetOutput(), Place(1, 1))
    for _, written in session.values(submit_output(rows, output, None, lambda name: str(tmp_path / name.replace("/", "-")))):
        assert written.rows == 2
    assert made == list(range(20))
    one.close(WAIT_S)
