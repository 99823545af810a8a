"""What a run waits for: values go where their submitter wants them, in order, and the first error ends it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any, cast

import pytest
from distributed import Event

from pipeline.errors import DataError, InputError, PipelineError, RunError
from pipeline.running.ending import as_failure
from pipeline.running.pending import Waiting, failure
from tests.harness import two_workers


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {
        "n_workers": 1,
        "threads_per_worker": 2,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
        "worker_dashboard_address": "127.0.0.1:0",
    }
    with LocalCluster(**options, silence_logs=50) as cluster, Client(cluster) as found:
        yield found


def raised(error: BaseException) -> None:
    raise error


def test_wait__hands_each_its_values_in_the_order_of_its_futures(client: Any) -> None:
    found: dict[str, list[int]] = {}
    waiting, told = Waiting(client), []
    waiting.add("write a", client.map(int, [3, 1, 2], pure=False), lambda values: found.update(a=values))
    waiting.add("rows b", [client.submit(int, 7, pure=False)], lambda values: found.update(b=values))
    waiting.wait(lambda: told.append(len(waiting.pending)))
    assert (found, waiting.pending, told[-1]) == ({"a": [3, 1, 2], "b": [7]}, [], 0)


def test_wait__what_is_done_may_wait_for_more(client: Any) -> None:
    found = list[int]()
    waiting = Waiting(client)
    waiting.add("first", [client.submit(int, 1, pure=False)], lambda _: waiting.add("second", client.map(int, [2, 3]), found.extend))
    waiting.wait(lambda: None)
    assert found == [2, 3]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (DataError("nobody matches", stage="gwas"), DataError, "stage gwas: nobody matches"),
        (InputError("a.vcf: line 7 is cut"), DataError, "a.vcf: line 7 is cut"),
        (KeyError("x"), RunError, "write a: KeyError: 'x'"),
    ],
)
def test_wait__raises_what_a_task_failed_with(client: Any, error: Exception, kind: type[PipelineError], text: str) -> None:
    waiting = Waiting(client)
    waiting.add("write a", [client.submit(raised, error, pure=False)], list[Any]().extend)
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        waiting.wait(lambda: None)


class Unreadable:
    """Pickles, and does not come back from that."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("x",)


@pytest.mark.parametrize("known", [True, False])
def test_wait__for_what_needs_a_task_that_does_not_pickle_is_one_error(client: Any, known: bool) -> None:
    waiting, before = Waiting(client), client.submit(str, Unreadable(), pure=False)
    waiting.add("write a", [client.submit(str, before, pure=False)], list[Any]().extend)
    if known:  # what failed first is told, wherever it stands
        waiting.add("rows b", [before], list[Any]().extend)
        before.exception()
    text = "rows b: RuntimeError: Error during deserialization" if known else "write a: its task was cancelled, or what it works with"
    with pytest.raises(RunError, match=f"^{text}"):
        waiting.wait(lambda: None)


def test_as_failure__of_what_was_not_sent_says_why() -> None:
    cluster, record = (cast(Any, SimpleNamespace(lost=str, killed=list, plan=None, expected=None)) for _ in range(2))
    cause = TypeError("cannot pickle 'module' object")
    unsent = TypeError("Could not serialize object of type LLGExpr", "LLGExpr(...)")
    unsent.__cause__ = cause
    for error, text in (
        (CancelledError("lost dependencies"), "a task was cancelled, .* lost dependencies"),
        (unsent, "cannot pickle 'module'"),
    ):
        found = as_failure(error, cluster, record)
        assert isinstance(found, RunError)
        assert found.__cause__ is error
        assert re.search(text, str(found))


def test_failure__of_a_task_that_was_cancelled_says_so(client: Any) -> None:
    future = client.submit(int, 1, pure=False)
    client.cancel([future], force=True)
    assert str(failure("write a", future)).startswith("write a: its task was cancelled")


@pytest.mark.process
def test_wait__for_what_is_lost_with_its_worker_until_it_is_computed_again() -> None:
    with two_workers() as session:
        client = session.client
        found, go = dict[str, list[int]](), Event("go", client)
        waiting, ahead = Waiting(client), client.submit(int, 3, pure=False, priority=1)
        later = client.submit(lambda: Event("go").wait() and 4, pure=False)
        ahead.result()
        waiting.add("write a", [ahead, later], lambda values: found.update(a=values))
        ((address,),) = client.who_has([ahead]).values()
        os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

        def look() -> None:
            if [holder for holders in client.who_has([ahead]).values() for holder in holders] not in ([], [address]):
                go.set()

        waiting.wait(look)
    assert found == {"a": [3, 4]}


def test_cancel__gives_up_all_that_has_not_come(client: Any) -> None:
    waiting = Waiting(client)
    futures = client.map(int, [1, 2], pure=False)
    waiting.add("write a", futures, list[Any]().extend)
    waiting.cancel()
    assert {future.status for future in futures} == {"cancelled"}
