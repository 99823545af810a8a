"""Tasks that are under way at the same time, on one worker each: where one of them is lost, all are given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from pipeline.errors import RunError
from pipeline.tables.keys import task_key
from pipeline.tables.lanes import lane
from pipeline.tables.session import ClusterSession, Session
from pipeline.tables.task import LOOK_S, run_sent_task

HERE = "127.0.0.1"


class LostError(RunError):
    """Raised by a task whose companions, or whose own process, are gone: it may be run again with all the others."""


class Together:
    """The workers of a session, for tasks of one stage."""

    def __init__(self, session: Session, stage: str) -> None:
        self._session, self._stage = session, stage

    def workers(self) -> list[str]:
        """Addresses of the workers that are there, in the order of their names; one without a name where there is no cluster."""
        if not isinstance(self._session, ClusterSession):
            return [""]
        client = self._session.client  # its `scheduler_info` is now and then without workers: it is renewed beside
        known = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        return sorted(known, key=lambda address: str(known[address]["name"]))

    def shared(self, value: Any) -> Any:
        """A value for tasks to take."""
        session = self._session
        return session.client.scatter(value, hash=False) if isinstance(session, ClusterSession) else value

    def put(self, address: str, task: Callable[..., Any], *arguments: Any) -> Any:
        """A future of what a task gives, made on this worker, or on another one where it is gone."""
        return self._submitted(address, task, *arguments, elsewhere=True)

    def run(self, tasks: Sequence[tuple[str, Callable[..., Any], *tuple[Any, ...]]], *arguments: Any) -> list[Any]:
        """What tasks give, each on the worker whose address stands before it, of its own arguments (behind it) and those of all.

        Waits, and raises what a task raised; LostError where one was lost, and all were given up.
        """
        session = self._session
        if not isinstance(session, ClusterSession):
            return [task(*own, *arguments) for _, task, *own in tasks]
        futures = [self._submitted(address, task, *own, *arguments, elsewhere=False) for address, task, *own in tasks]
        try:
            while pending := [future for future in futures if future.status == "pending"]:
                if any(future.status not in {"pending", "finished"} for future in futures):
                    break
                session.look()
                with suppress(TimeoutError, CancelledError):
                    pending[-1].exception(timeout=LOOK_S)
                if gone := {address for address, *_ in tasks} - {*self.workers()}:
                    raise LostError(f"the worker {min(gone)} is gone", stage=self._stage)
            return [self._value(future) for future in sorted(futures, key=_order)]
        finally:
            session.client.cancel(futures, force=True)

    def _submitted(self, address: str, task: Callable[..., Any], *arguments: Any, elsewhere: bool) -> Any:
        session = self._session
        assert isinstance(session, ClusterSession)
        session.submitted[self._stage] += 1
        place = {"workers": [address], "allow_other_workers": elsewhere, "pure": False, "key": task_key(self._stage, task)}
        with lane(session.backend, on_host=False):
            return session.client.submit(run_sent_task, self._stage, task, *arguments, **place)

    def _value(self, future: Any) -> Any:
        if future.status in {"finished", "error"}:
            return future.result()
        raise LostError(f"a task was {future.status}", stage=self._stage)


def host_of(address: str) -> str:
    """The host of a worker's address; this machine where it is of this process."""
    return address.partition("://")[2].rpartition(":")[0] if address.startswith(("tcp", "tls", "ucx")) else HERE


def _order(future: Any) -> int:
    """What is asked first: a task's own error, then that its companions are gone, and last what came of neither."""
    if future.status == "error":
        return int(isinstance(future.exception(), LostError))
    return 0 if future.status == "finished" else 2
