"""One writer at a time where nothing frees a lock by itself: a file that its owner renews now and then, and that is free when it is old.

It spares a second run its work and tells which runs are dead; that no run undoes another's is the conditional swap's doing (on_s3.py),
for an owner that was asleep may wake when its lease is another's. How old the file is the service tells, by its own clock.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import PlaceError
from pipeline.results.lock import ChangedError, held_text, owner

LEASE_S = 60.0  # a lease that is older is free
RENEW_S = 15.0  # between two times of renewing it


class Seen(Protocol):
    """A file as it was at one moment: its content, what it is known by, and its age in seconds."""

    @property
    def content(self) -> bytes:
        """All of it."""

    @property
    def tag(self) -> str:
        """What it is known by."""

    @property
    def age_s(self) -> float:
        """Seconds since it was written."""


class Conditional(Protocol):
    """A place whose service does a write only if a file is still what it was."""

    place: str

    def look(self, name: str) -> Seen | None:
        """A file; None where there is none."""

    def put(self, name: str, data: bytes, tag: str) -> str:
        """Write a file that has that tag ('': that is not there), or raise ChangedError."""

    def replace(self, name: str, data: bytes, tag: str) -> str:
        """The same, where the answer to an earlier try may have been lost."""


class Lease:
    """A lease that is ours, renewed by a thread of its own until it is closed or lost."""

    excludes = False

    def __init__(self, store: Conditional, name: str, about: dict[str, Any], tag: str) -> None:
        self._store, self._name, self._about, self._tag = store, name, about, tag
        self._turn, self._ended, self._lost, self._count = threading.Lock(), threading.Event(), False, 0
        threading.Thread(target=self._keep, name="lease", daemon=True).start()

    def renew(self) -> bool:
        """Write it anew; False where it was lost. Raises OSError where the service cannot be asked."""
        with self._turn:
            if not self._lost and not self._ended.is_set():
                self._write({"count": self._count + 1})
            return not self._lost

    def held(self) -> bool:
        """Whether it is still ours, asked of the service; not where that cannot be asked."""
        try:
            return self.renew()
        except OSError:
            return False

    def close(self) -> None:
        """Free it at once. Where the service cannot be told, it is free when it is old."""
        self._ended.set()
        with self._turn:
            try:
                if not self._lost:
                    self._write({"free": True})
            except OSError:
                self._lost = True

    def _write(self, more: dict[str, Any]) -> None:
        self._count += 1
        try:
            self._tag = self._store.replace(self._name, _text({**self._about, **more}), self._tag)
        except ChangedError:
            self._lost = True

    def _keep(self) -> None:
        while not self._ended.wait(RENEW_S) and self._still():
            pass

    def _still(self) -> bool:
        """Renew it; what cannot be written now is tried again the next time, and is lost only to another run."""
        try:
            return self.renew()
        except OSError:
            return True


def take_lease(store: Conditional, name: str) -> Lease | None:
    """Take it; None where the service does not hold itself to conditions, so that two could have it.

    Raises PlaceError where a living run has it: one that renewed it of late, or whose process is on this machine and alive.
    """
    seen = store.look(name)
    if seen is not None and (by := _living(seen)):
        raise PlaceError(held_text(store.place, seen.content, by))
    about = {**owner(), "machine": machine(), "of": secrets.token_hex(8)}
    try:
        tag = store.replace(name, _text(about), seen.tag if seen else "")
    except ChangedError as error:
        now = store.look(name)
        raise PlaceError(held_text(store.place, now.content if now else b"")) from error
    if _ignores_conditions(store, name, _text(about)):
        return None
    return Lease(store, name, about, tag)


def _living(seen: Seen) -> str:
    """What tells that the lease's owner lives; '' where it is free."""
    try:
        known = dict(json.loads(seen.content))
    except ValueError:
        known = {}
    if known.get("free") or seen.age_s > LEASE_S:
        return ""
    if known.get("machine") and known["machine"] == machine() and not Path(f"/proc/{known.get('pid')}").exists():
        return ""
    return f", seen {max(seen.age_s, 0):.0f} s ago; the lock of a run that died is free after {LEASE_S:.0f} s"


def _ignores_conditions(store: Conditional, name: str, data: bytes) -> bool:
    """Whether the service writes though the condition is not met; the file's content is the same afterwards."""
    for tag in ("", '"00000000000000000000000000000000"'):
        try:
            store.put(name, data, tag)
        except ChangedError:
            continue
        return True
    return False


def machine() -> str:
    """What tells this boot of this machine, and this container of it, from others; '' where that cannot be told."""
    if sys.platform != "linux":
        return ""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _text(about: dict[str, Any]) -> bytes:
    return (json.dumps(about) + "\n").encode()
