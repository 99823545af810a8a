"""Workers that are frozen are ended and others do their work; one whose task holds Python's lock is not taken for one of them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.clusters.frozen import Patience, Watch, listening_at, sign_of, silent_workers, watched
from pipeline.clusters.local import Local
from pipeline.results.lease import machine
from tests.clusters.running import LOOKS, PAUSE_S, one_more_worker, running_scheduler

HASTY = Patience(silent=0.6, still=0.8, look=0.2)
LONG = 300_000_000  # numbers whose sum takes several seconds, in which no other thread of its process runs


def wait_until(is_so: Any) -> None:
    for _ in range(4 * LOOKS):
        if is_so():
            return
        time.sleep(PAUSE_S)
    raise AssertionError("it is never so")


@pytest.mark.process
def test_frozen__worker_is_killed_and_its_work_done_elsewhere_and_a_busy_one_stays() -> None:
    said = list[str]()
    with Local(workers=2, threads=1, dashboard=False).open("cpu") as client, watched(client, said.append, HASTY):
        frozen, other = sorted(client.nthreads())
        pid = client.run(os.getpid, workers=[frozen])[frozen]
        held = client.submit(bytes, 1_000_000, workers=[frozen], allow_other_workers=True)
        held.result(60)
        busy, longest = client.submit(sum, range(LONG), workers=[other]), 0.0
        while not busy.done():
            longest = max(longest, client.run_on_scheduler(silent_workers, 0.0)[0][other])
            time.sleep(PAUSE_S)
        assert longest > HASTY.silent + HASTY.still + HASTY.look
        assert said == []
        os.kill(pid, signal.SIGSTOP)
        assert client.submit(len, held, workers=[other]).result(60) == 1_000_000
        wait_until(lambda: len(client.nthreads()) == 2)
        assert frozen not in client.nthreads()
        assert other in client.nthreads()
        with pytest.raises(ProcessLookupError, match="No such process"):
            os.kill(pid, 0)
    assert [text.partition(" (")[0] for text in said] == [f"the worker at {frozen} was frozen or cut off"]


@pytest.mark.process
@pytest.mark.parametrize(
    "moment", ["before the client connects", pytest.param("before anybody watches", marks=pytest.mark.soak), "once its place is known"]
)
def test_frozen__worker_of_a_running_cluster_without_a_nanny_is_left_out(tmp_path: Path, moment: str) -> None:
    """Whenever it is frozen: one that can say nothing any more is found by the address at which it listens."""
    from distributed import Client

    said = list[str]()
    with running_scheduler(tmp_path, "--no-nanny") as (address, _), one_more_worker(address, tmp_path) as process:
        try:
            with Client(address) as earlier:
                earlier.wait_for_workers(2, timeout=60)
            if moment == "before the client connects":
                process.send_signal(signal.SIGSTOP)
            with Client(address) as client:
                client.wait_for_workers(2, timeout=60)
                pids = {worker: listening_at(worker) for worker in client.nthreads()}
                frozen = next(worker for worker, pid in pids.items() if pid == process.pid)
                (other,) = set(pids) - {frozen}
                if moment == "before anybody watches":
                    process.send_signal(signal.SIGSTOP)
                with watched(client, said.append, HASTY) as watch:
                    held = client.submit(bytes, 1_000_000, workers=[frozen], allow_other_workers=True)
                    if moment == "once its place is known":
                        held.result(60)
                        wait_until(lambda: {*watch._processes} == {frozen, other})
                        process.send_signal(signal.SIGSTOP)
                    assert client.submit(len, held, workers=[other]).result(60) == 1_000_000
                    assert {*client.nthreads()} == {other}
        finally:
            process.kill()
    assert [text.partition(" (")[0] for text in said] == [f"the worker at {frozen} was frozen or cut off"]


def test_frozen__what_listens_at_an_address_and_is_no_worker_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as here:
        assert listening_at(f"tcp://127.0.0.1:{here.getsockname()[1]}") is None
    assert listening_at("tcp://192.0.2.1:80") is None
    assert listening_at("") is None


@pytest.mark.parametrize(("of_machine", "ended_after"), [("another machine", Patience().unknown), ("", Patience().unknown), (None, 24.0)])
def test_frozen__worker_without_a_nanny_is_known_by_its_silence_alone_on_another_machine(
    of_machine: str | None, ended_after: float
) -> None:
    """None: this machine, whose system tells that the process, which there is none of, computes nothing."""
    address, silent = "tcp://far:1", [0.0]

    class Told:
        """A client of a scheduler that has not heard of a worker for so many seconds."""

        async def run_on_scheduler(self, *_: Any) -> Any:
            return {address: silent[0]} if silent[0] >= Patience().silent else {}, [address]

    class Noting(Watch):
        """A watch that notes when it would end a worker."""

        async def _end(self, address: str, seconds: float) -> None:
            ended.append((address, seconds))

    ended, watch = list[tuple[str, float]](), Noting(Told(), print, Patience())
    watch._processes[address] = (machine() if of_machine is None else of_machine, 2**30)
    while not ended:
        asyncio.run(watch._look(silent[0]))
        silent[0] += Patience().look
    assert ended == [(address, ended_after)] if of_machine is not None else ended[0][1] <= ended_after


def test_frozen__process_that_is_not_there_has_no_sign() -> None:
    assert sign_of(None) == sign_of(2**30)
    assert sign_of(os.getpid()).computed is not None


def test_frozen__scheduler_that_goes_is_lost() -> None:
    """The client says that it is connecting, and the watch that the scheduler is gone."""

    class Gone:
        """A client that has lost its scheduler."""

        status, removed = "connecting", list[str]()
        scheduler = type("Scheduler", (), {"address": "tcp://head:1"})
        rpc = type("Pool", (), {"remove": removed.append})

    watch = Watch(Gone, print, HASTY)
    watch._miss(0.0, ConnectionError("refused"))
    assert watch.lost == "the scheduler at tcp://head:1 is gone (ConnectionError: refused)"
    assert Gone.removed == ["tcp://head:1"]
