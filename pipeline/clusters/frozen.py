"""Workers that stand still are found and ended, so that others do their work: frozen ones, and those of a host that is cut off.

A task that holds Python's lock keeps its worker from saying that it lives for as long as it lasts, and is none of these. So nobody is
judged by its silence alone: the nanny, a process beside the worker, tells whether it was stopped and whether it computes. Dask's own
limit (`distributed.scheduler.worker-ttl`) knows silence only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from pipeline.results.lease import machine


@dataclass(frozen=True)
class Patience:
    """Seconds. A worker is ended that stood still for `still` of them after `silent` without a word, so in half a minute at most."""

    silent: float = 10.0
    still: float = 12.0
    unknown: float = 300.0  # of silence, where nobody can tell whether it computes, or where it hardly does
    scheduler: float = 60.0  # without an answer of the scheduler
    look: float = 2.0  # between two looks
    answer: float = 4.0  # for whoever is asked; who does not answer is as silent as the worker


@dataclass(frozen=True)
class Sign:
    """What was told of a silent worker's process: whether it was stopped, and the seconds that it has computed. None: nobody told."""

    stopped: bool = False
    computed: float | None = None


@dataclass
class Suspect:
    """A silent worker: what was told of it at first and last, and when, and since when it stands still."""

    first: tuple[float, Sign]
    last: Sign
    still_since: float

    def look(self, now: float, sign: Sign) -> None:
        """It is still where it was stopped, computed nothing since the last look, or cannot be asked."""
        if not sign.stopped and sign.computed is not None and sign.computed != self.last.computed:
            self.still_since = now
        self.last = sign

    def idle_share(self, now: float) -> float:
        """The share of the time since the first look in which it did not compute."""
        began, sign = self.first
        return 1 - ((self.last.computed or 0) - (sign.computed or 0)) / max(now - began, 0.001)


OWN_LIMIT: dict[str, str] = {"worker_ttl": "30 days"}
"""What schedulers are started with here: Dask's limit of five minutes would end a worker whose task holds the lock for longer."""

WORKERS = ("dask", "distributed", "spawn_main")
"""What the command line of a worker's process has; a tunnel to another machine listens here as well, and has none of it."""

HARDLY = 0.95  # a process that waits for a lock for ever still wakes now and then


class Watch:
    """The watch over a cluster's workers and its scheduler, on the client's own loop; `lost` says what became of the scheduler."""

    def __init__(self, client: Any, tell: Callable[[str], None], patience: Patience) -> None:
        self._client, self._tell, self._patience = client, tell, patience
        self._suspects: dict[str, Suspect] = {}
        self._processes: dict[str, tuple[str, int]] = {}  # machines and numbers of workers without a nanny
        self._answered = self._looked = time.monotonic()
        self.lost = ""

    async def go_on(self) -> None:
        """Look every now and then."""
        while True:
            now = time.monotonic()
            if now > self._looked + 5 * self._patience.answer:  # this process itself was stopped, and heard nobody
                self._suspects.clear()
                self._answered = now
            self._looked = now
            try:
                await self._look(now)
                self._answered = time.monotonic()
            except OSError as error:  # a timeout, too
                self._miss(now, error)
            await asyncio.sleep(self._patience.look)

    async def _look(self, now: float) -> None:
        silent, alone = await self._ask(self._client.run_on_scheduler(silent_workers, self._patience.silent))
        await asyncio.gather(*(self._find(address, silent=address in silent) for address in alone if address not in self._processes))
        signs = await asyncio.gather(*(self._sign(address, alone) for address in silent))
        self._suspects = {address: suspect for address, suspect in self._suspects.items() if address in silent}
        for (address, seconds), sign in zip(silent.items(), signs, strict=True):
            suspect = self._suspects.setdefault(address, Suspect((now, sign), sign, now))
            suspect.look(now, sign)
            if self._stands_still(suspect, now, seconds, asked=address not in alone or self._is_here(address)):
                await self._end(address, seconds)

    async def _find(self, address: str, *, silent: bool) -> None:
        """Learn where a worker without a nanny is: the system tells of this machine's, frozen ones too, and others tell by themselves."""
        if (pid := listening_at(address)) is not None:
            self._processes[address] = (machine(), pid)
        elif not silent:
            with suppress(OSError):
                told = await self._ask(self._client.run(whereabouts, workers=[address], on_error="return"))
                if isinstance(where := told.get(address), tuple):
                    self._processes[address] = where

    def _stands_still(self, suspect: Suspect, now: float, seconds: float, *, asked: bool) -> bool:
        if seconds >= self._patience.unknown:
            return suspect.idle_share(now) >= HARDLY or now - suspect.first[0] < self._patience.look
        return asked and now - suspect.still_since >= self._patience.still

    def _is_here(self, address: str) -> bool:
        """Whether a worker without a nanny is a process of this machine, of which the system tells."""
        where = self._processes.get(address, ("", 0))[0]
        return where != "" and where == machine()

    async def _sign(self, address: str, alone: list[str]) -> Sign:
        if address in alone:
            return sign_of(self._processes[address][1]) if self._is_here(address) else Sign()
        with suppress(OSError):
            told = await self._ask(self._client.run(nannys_sign, workers=[address], nanny=True, on_error="return"))
            return next((sign for sign in told.values() if isinstance(sign, Sign)), Sign())
        return Sign()

    async def _end(self, address: str, seconds: float) -> None:
        """Kill its process by its nanny, which starts another one, and have all others forget it: they would wait for what it has."""
        self._tell(f"the worker at {address} was frozen or cut off (silent for {seconds:.0f} s): it was ended, and others do its work")
        with suppress(OSError):
            await self._ask(self._client.run(nanny_kills, workers=[address], nanny=True, on_error="return"))
        await self._ask(self._client.run_on_scheduler(forget, address))
        with suppress(OSError):
            await self._ask(self._client.run(forget_at_worker, address, on_error="ignore"))
        self._suspects.pop(address, None)

    async def _ask(self, asked: Any) -> Any:
        return await asyncio.wait_for(asked, self._patience.answer)

    def _miss(self, now: float, error: OSError) -> None:
        """The scheduler did not answer; once it is lost, whoever else waits for its answer is told so."""
        address = self._client.scheduler.address
        if self._client.status != "running":
            self.lost = f"the scheduler at {address} is gone ({type(error).__name__}: {error})"
        elif now >= self._answered + self._patience.scheduler:
            self.lost = f"the scheduler at {address} has not answered for {now - self._answered:.0f} s"
        if self.lost:
            self._client.rpc.remove(address)


@contextmanager
def watched(client: Any, tell: Callable[[str], None], patience: Patience | None = None) -> Iterator[Watch]:
    """Watch over the workers and the scheduler of a client until the end of the block; `tell` hears of workers that were ended."""
    watch = Watch(client, tell, patience or Patience())
    watching = asyncio.run_coroutine_threadsafe(watch.go_on(), client.loop.asyncio_loop)
    try:
        yield watch
    finally:
        if not watching.cancel() and not watching.cancelled() and (error := watching.exception()):
            tell(f"nobody watched over the workers from some moment on: {type(error).__name__}: {error}")


def silent_workers(least_s: float, dask_scheduler: Any) -> tuple[dict[str, float], list[str]]:
    """On the scheduler: workers that it has not heard of for so long, with the seconds, and all those that have no nanny."""
    now, workers = time.time(), dask_scheduler.workers.values()
    silent = {worker.address: now - worker.last_seen for worker in workers if now - worker.last_seen >= least_s}
    return silent, [worker.address for worker in workers if worker.nanny is None]


async def forget(address: str, dask_scheduler: Any) -> None:
    """On the scheduler: the worker is none any more."""
    await dask_scheduler.remove_worker(address, stimulus_id=f"frozen-{time.time()}")


def forget_at_worker(address: str, dask_worker: Any) -> None:
    """On a worker: give up what is being fetched from another one."""
    dask_worker.rpc.remove(address)


def whereabouts() -> tuple[str, int]:
    """On a worker: its machine, and the number of its process there."""
    return machine(), os.getpid()


def nannys_sign(dask_worker: Any) -> Sign:
    """On a nanny: the sign of its worker's process."""
    return sign_of(dask_worker.pid)


def nanny_kills(dask_worker: Any) -> None:
    """On a nanny: kill its worker's process, stopped or not; the nanny starts another one."""
    if dask_worker.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(dask_worker.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def listening_at(address: str) -> int | None:
    """The number of the worker's process that listens at an address of this machine; None where there is none, or it cannot be told."""
    import psutil  # distributed's own

    host, _, port = address.partition("://")[2].rpartition(":")
    host = host.strip("[]")
    try:
        if not any(host == own.address for addresses in psutil.net_if_addrs().values() for own in addresses):
            return None
        for socket in psutil.net_connections("tcp"):
            if socket.status == psutil.CONN_LISTEN and socket.pid and str(socket.laddr.port) == port and _takes(socket.laddr.ip, host):
                words = " ".join(psutil.Process(socket.pid).cmdline())
                return socket.pid if any(word in words for word in WORKERS) else None
    except (psutil.Error, OSError):  # what belongs to others may be hidden
        return None
    return None


def _takes(listens: str, host: str) -> bool:
    return listens == host or ip_address(listens).is_unspecified


def sign_of(pid: int | None) -> Sign:
    """What the system says of a process of this machine."""
    import psutil  # distributed's own

    try:
        process = psutil.Process(-1 if pid is None else pid)
        times = process.cpu_times()
        return Sign(process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}, times.user + times.system)
    except (psutil.Error, ValueError):
        return Sign()
