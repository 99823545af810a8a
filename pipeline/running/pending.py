"""What a run waits for: futures, and what is done with their values when they are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pipeline.errors import DataError, PipelineError, RunError
from pipeline.tables.pool import Pool

POLL_S = 0.2
LOST = "its task was cancelled, or what it works with could not be sent to a worker (what does not pickle cannot)"
FINAL = {"error", "cancelled"}  # one that is lost with its worker is computed again by Dask: it is pending


@dataclass(frozen=True)
class Pending:
    """Some futures (`what` they are of, for a message: write people), and what is done with their values when all of them are there.

    Whoever submits a task brings what its result is for: an output its files, a table its rows, a stage its metrics.
    """

    what: str
    futures: Sequence[Any]
    done: Callable[[list[Any]], None]


class Waiting:
    """Everything that a run has submitted and not yet had."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.pending: list[Pending] = []

    def add(self, what: str, futures: Sequence[Any], done: Callable[[list[Any]], None]) -> None:
        """Wait for these too."""
        self.pending.append(Pending(what, futures, done))

    def wait(self, tell: Callable[[], None]) -> None:
        """Wait until all is there, and done with; `tell` is called now and then. Raises the error of the first task that failed."""
        while True:
            self._settle()
            tell()
            if not self.pending:
                return
            self._pause()

    def cancel(self) -> None:
        """Give up what has not come yet, one after the other from what was submitted last.

        Dask's scheduler prints a traceback where a task is cancelled before one that needs it, and which no client holds any more.
        """
        for pending in reversed(self.pending):
            for future in reversed(pending.futures):
                self.client.cancel([future], force=True)

    def _settle(self) -> None:
        """Fetch what is there in one go, and have it done with in the order in which it was submitted."""
        there, left, failed = list[Pending](), list[Pending](), list[tuple[str, str, Any]]()
        for pending in self.pending:
            states = [future.status for future in pending.futures]
            ended = zip(states, pending.futures, strict=True)
            failed += [(state, pending.what, future) for state, future in ended if state in FINAL]
            (there if all(state == "finished" for state in states) else left).append(pending)
        for _, what, future in sorted(failed, key=lambda one: one[0] != "error"):  # what is cancelled waited for what failed
            raise failure(what, future)
        try:
            values = self.client.gather([list(pending.futures) for pending in there])
        except CancelledError:
            return  # lost between the two looks: the next one says of what
        self.pending = left
        for pending, of in zip(there, values, strict=True):
            pending.done(of)

    def _pause(self) -> None:
        """Wait until all are done, or for the time between two looks; errors show in the futures' status."""
        futures = [future for pending in self.pending for future in pending.futures]
        if isinstance(self.client, Pool):
            self.client.rest(futures, POLL_S, until=FIRST_EXCEPTION)
            return
        from distributed import wait

        with suppress(TimeoutError, CancelledError):  # which of them was cancelled the next look says
            wait(futures, timeout=POLL_S)


def failure(what: str, future: Any) -> PipelineError:
    """What a task failed with, as an error of a run: one that only reading an input could show is of the data."""
    error = future.exception() if future.status == "error" else None
    if isinstance(error, RunError):
        return error
    if isinstance(error, PipelineError):  # an input that turned out bad only when it was read: the run has started, so it fails
        return DataError(error.text)
    why = f"{type(error).__name__}: {error}" if error else LOST
    found = RunError(f"{what}: {why}")
    found.__cause__ = error
    return found
