"""One writer at a time: a lock file that the system frees when its owner dies, however it dies."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import PlaceError

if sys.platform != "win32":
    import fcntl


class ChangedError(OSError):
    """A file was to be replaced only if it is still what was seen, and it is another by now: nothing was written."""


class Lock(Protocol):
    """What a run holds while it writes to a place."""

    excludes: bool
    """Whether nobody else can write while it is held, come what may; else pointers are swapped by what was seen of them."""

    def held(self) -> bool:
        """Whether it is still ours: a lease can be lost by who does not renew it."""

    def close(self) -> None:
        """Free it."""


class FileLock:
    """A lock file that this process holds."""

    excludes = True

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def held(self) -> bool:
        """Until it is closed."""
        return True

    def close(self) -> None:
        """Free it, by closing its file."""
        os.close(self._descriptor)


def take_lock(path: Path, place: str) -> FileLock | None:
    """Take the lock file by flock; None where the file system has no locks.

    The file says who holds it, for the message alone: its text is no lock, and it is never removed (two runs could then hold two files
    of one name). A link of that name is not followed. Raises PlaceError where a living process holds it, OSError where the file cannot be
    made.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner()).encode(), 0)
    except OSError as error:
        held_by = os.pread(descriptor, 4096, 0)
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise PlaceError(held_text(place, held_by)) from error
        if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            return None
        raise
    return FileLock(descriptor)


def owner() -> dict[str, Any]:
    """Who this process is, for the message of another one that finds the lock taken."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat(timespec="seconds")}


def held_text(place: str, held_by: bytes, more: str = "") -> str:
    """What is said where a living run holds the lock; `more` is said of it, too."""
    try:
        known = json.loads(held_by)
        who = f"pid {known['pid']} on {known['host']} since {known['since']}"
    except (ValueError, KeyError, TypeError):
        who = "a process that has only just started"
    return f"{place}: another run writes there ({who}{more}). Wait for it, end it, or choose another place with --out."
