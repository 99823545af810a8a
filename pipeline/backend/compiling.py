"""Kernels that are not kept on disk yet: each is compiled by one process, for which others wait, and who wants to is told of the first.

Nothing here loads a compiler.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

PATIENCE = 60.0
"""Seconds for which another process may compile a kernel; then this one does so, too: the other may have been stopped."""
PAUSE = 0.02
_LOCK = threading.Lock()
_asked = list[Callable[[], None]]()


@contextmanager
def before_compiling(call: Callable[[], None]) -> Iterator[None]:
    """Call it once until the block ends, before this process compiles a kernel; never where all that is wanted is kept."""
    with _LOCK:
        _asked.append(call)
    try:
        yield
    finally:
        with _LOCK:
            _asked[:] = [one for one in _asked if one is not call]


@contextmanager
def alone(path: str | Path) -> Iterator[None]:
    """Compile what a lock file stands for, unless another process has kept it by then: others wait meanwhile."""
    with _LOCK:
        for call in _asked:
            call()
        _asked.clear()
    if sys.platform == "win32":
        yield
        return
    with Path(path).open("ab") as file:
        _wait(file)
        yield


def _wait(file: IO[bytes]) -> None:
    """Take a lock, which is free once the file is closed, when nobody has it; none where the file system has none."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError:  # no locks
            return
        else:
            return
