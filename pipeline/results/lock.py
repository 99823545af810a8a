"""One writer at a time: a lock file that the system frees when its owner dies, however it dies."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import PlaceError

if sys.platform != "win32":
    import fcntl


def take_lock(path: Path, place: str) -> int | None:
    """Take the lock file by flock; returns the descriptor to close, or None where the file system has no locks.

    The file says who holds it, for the message alone: its text is no lock, and it is never removed (two runs could then hold two files
    of one name). Raises PlaceError where a living process holds it, OSError where the file cannot be made.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)
    except OSError as error:
        held_by = os.pread(descriptor, 4096, 0)
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise PlaceError(_held(place, held_by)) from error
        if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            return None
        raise
    return descriptor


def _held(place: str, held_by: bytes) -> str:
    try:
        owner = json.loads(held_by)
        who = f"pid {owner['pid']} on {owner['host']} since {owner['since']}"
    except (ValueError, KeyError, TypeError):
        who = "a process that has only just started"
    return f"{place}: another run writes there ({who}). Wait for it, end it, or choose another place with --out."
